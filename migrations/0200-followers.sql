-- Names whose addresses follow something (core/dns/follow): another name (an alias), or the health of members (a pool).
-- What they follow is data of their zone: changed with it, kept in its journal. Their A and AAAA records are derived from it
-- and stand among the zone's records.
create table followers (
  id          bigint generated always as identity primary key, -- the API's alias_id and pool_id
  zone_id     bigint      not null references zones on delete cascade,
  owner       bytea       not null, -- wire form, absolute, case kept
  owner_key   bytea       not null, -- nameSortKey(owner)
  kind        text        not null check (kind in ('alias', 'pool')),
  definition  jsonb       not null,
  target_keys bytea[]     not null, -- nameSortKey of the names that the addresses come from
  wire_keys   bytea[]     not null default '{}', -- of those that a resolver is asked for: they, or what they lead to
  due_at      timestamptz not null default 'epoch', -- when somebody is to derive the records anew
  stirred     bigint      not null default 0, -- counts what happened since, so that none of it is missed
  problem     jsonb, -- why it has not what it should have, as a sentence
  unique (zone_id, owner_key)
);
create index followers_due on followers (due_at) include (zone_id);
create index followers_due_of_zone on followers (zone_id, due_at);
create index followers_owner on followers (owner_key);
create index followers_wire on followers using gin (wire_keys);

-- The names that a resolver is asked for, each once for all that follow it.
create table follow_targets (
  name_key    bytea       primary key, -- nameSortKey(name)
  name        bytea       not null, -- wire form, lower case
  answer      jsonb, -- what is followed: the last answer that counts; null: none yet
  problem     jsonb, -- why there is no newer one, as a sentence
  nxdomains   integer     not null default 0, -- answers in a row that the name does not exist
  failures    integer     not null default 0, -- questions in a row that were not answered
  slow        boolean     not null default false, -- whether the last answer took long
  company_id  bigint, -- who was the first to follow it: companies take turns where many names are due
  asked_at    timestamptz,
  answered_at timestamptz, -- when `answer` was told
  due_at      timestamptz not null default now()
);
create index follow_targets_due on follow_targets (due_at);

-- Names on a follower's way to its addresses that a zone of its own company may have: a change of that zone has it derived
-- anew. Of other companies' zones only what a resolver says is believed: whoever has a key can make a zone of any name.
create table follower_names (
  name_key    bytea  not null,
  follower_id bigint not null references followers on delete cascade,
  primary key (name_key, follower_id)
);
create index follower_names_follower on follower_names (follower_id);

-- What is looked at: an address of a member of a pool that has a health check.
create table pool_probes (
  id          bigint generated always as identity primary key,
  follower_id bigint      not null references followers on delete cascade,
  member      text        not null,
  address     text        not null,
  name        text        not null, -- of the pool, for checks that speak of it
  health      jsonb       not null, -- core/dns/follow/health-check.ts
  port        integer     not null generated always as ((health->>'port')::integer) stored, -- another is another place
  tenant      text        not null, -- whose it is, for the bounds on what one may have checked
  up          boolean     not null default true,
  since       timestamptz not null default now(),
  flaps       integer     not null default 0,
  well_since  timestamptz,
  made_at     timestamptz not null default now(),
  unique (follower_id, member, address, port)
);
create index pool_probes_tenant on pool_probes (tenant);

-- What each checking node says of a probe. A row changes when the node changes its mind.
create table probe_verdicts (
  probe_id bigint      not null references pool_probes on delete cascade,
  node     text        not null,
  up       boolean     not null,
  since    timestamptz not null,
  reason   jsonb, -- of the failure, as a sentence
  primary key (probe_id, node)
);

-- What became of members, for whoever asks why.
create table pool_events (
  id          bigint generated always as identity primary key,
  follower_id bigint      not null references followers on delete cascade,
  at          timestamptz not null,
  member      text        not null,
  address     text        not null,
  up          boolean     not null,
  verdicts    jsonb       not null -- who saw what: [{"node", "up", "since", "reason"}]
);
create index pool_events_follower on pool_events (follower_id, id);

-- Who checks at present. Those of one node share its checks; who was not seen for some seconds has none.
create unlogged table checking_workers (
  id      uuid        primary key,
  node    text        not null,
  seen_at timestamptz not null
);
create index checking_workers_node on checking_workers (node, seen_at);

-- What a version made of aliases and pools: {"deleted": [...], "added": [...]}.
alter table zone_journal add column followers jsonb;
