-- The mail side as its users know it: contacts, campaigns, groups, filters, globals, the whitelist, and events.

alter table instances
  add column event_retention_days   integer check (event_retention_days > 0),   -- null: kept for ever
  add column archive_retention_days integer check (archive_retention_days > 0), -- null: kept for ever
  add column conversions            boolean not null default false;             -- clicked links carry a conversion token

-- The whole TXT value that publishes the key, rather than its p= alone.
alter table instance_domains rename column dkim_public_key to dkim_record;

create table contacts (
  id                bigint generated always as identity primary key, -- the API's numid
  instance_id       bigint      not null references instances on delete cascade,
  email             text        not null, -- as given, the domain in lower case
  email_key         text        not null, -- exact local part @ A-label domain in lower case: what equal addresses share
  first_name        text        not null default '',
  last_name         text        not null default '',
  age               smallint,
  sex               text        not null default '',
  profession        text        not null default '',
  locality          text        not null default '',
  country_code      text        not null default '',
  region_code       text        not null default '',
  city              text        not null default '',
  device            text        not null default '',
  device_subtype_id integer,
  domain_group_id   smallint    not null default 0, -- config/domain-groups.json
  fields            jsonb       not null default '{}', -- custom fields: name without its XYZ wrapping → text
  invalid           boolean     not null default false,
  bounces_count_from timestamptz not null default '-infinity', -- hard bounces before it no longer count
  last_operation    text        not null default 'created'
    check (last_operation in ('created', 'modified', 'imported', 'invalidated', 'revalidated', 'unsubscribed')),
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  unique (instance_id, email_key)
);
create index contacts_listing on contacts (instance_id, id);
create index contacts_invalid on contacts (instance_id, id) where invalid;

create table groups (
  id          bigint generated always as identity primary key,
  instance_id bigint      not null references instances on delete cascade,
  name        text        not null,
  created_at  timestamptz not null default now(),
  unique (instance_id, name)
);

create table contact_groups (
  contact_id bigint not null references contacts on delete cascade,
  group_id   bigint not null references groups on delete cascade,
  primary key (contact_id, group_id)
);
create index contact_groups_members on contact_groups (group_id, contact_id);

create table campaigns (
  numid         bigint generated always as identity primary key,
  id            uuid        not null unique default gen_random_uuid(),
  instance_id   bigint      not null references instances on delete cascade,
  type          text        not null check (type in ('api', 'normal', 'bulk')),
  name          text        not null,
  sender        text        not null default '',
  sender_name   text        not null default '',
  subject       text        not null default '',
  subject_uri   text        not null default '', -- set only where the subject is dynamic
  reply_to      text        not null default '',
  url           text        not null default '',
  charset       text        not null default '',
  unsubscribe   text        not null default '' check (unsubscribe in ('', 'si', 'no')),
  apikey_sealed text, -- only of type api
  apikey_hash   bytea,
  created_at    timestamptz not null default now(),
  check ((type = 'api') = (apikey_sealed is not null) and (apikey_sealed is null) = (apikey_hash is null))
);
create index campaigns_listing on campaigns (instance_id, numid);

create table campaign_unsubscriptions (
  contact_id     bigint      not null references contacts on delete cascade,
  campaign_numid bigint      not null references campaigns on delete cascade,
  at             timestamptz not null default now(),
  primary key (contact_id, campaign_numid)
);

-- Addresses, contacts or not, that nothing may make invalid.
create table whitelist (
  instance_id bigint      not null references instances on delete cascade,
  email_key   text        not null,
  created_at  timestamptz not null default now(),
  primary key (instance_id, email_key)
);

create table globals (
  instance_id bigint not null references instances on delete cascade,
  key         text   not null, -- the name without its XYZ wrapping
  name        text   not null, -- as it was given
  value       text   not null,
  primary key (instance_id, key)
);

-- Saved conditions over contacts, as data (services/store/filter-conditions.ts).
create table filters (
  id          bigint generated always as identity primary key,
  instance_id bigint      not null references instances on delete cascade,
  name        text        not null,
  conditions  jsonb       not null,
  created_at  timestamptz not null default now(),
  unique (instance_id, name)
);

-- Events: append-only, a partition a month (services/store/event-partitions.ts makes them). No foreign keys:
-- events are written by the ten thousand, and whoever deletes a contact deletes its events in the same transaction.
create sequence event_ids cache 100;
create table events (
  instance_id    bigint      not null,
  at             timestamptz not null,
  id             bigint      not null default nextval('event_ids'),
  kind           smallint    not null, -- services/store/event-kinds.ts
  machine        boolean     not null default false,
  contact_id     bigint,
  campaign_numid bigint,
  delivery_id    bigint,
  eeid           uuid,
  email          text, -- only of events without a contact (copies)
  detail         jsonb,
  primary key (instance_id, at, id) include (kind, machine)
) partition by range (at);
create index events_contact on events (contact_id, at, id) where contact_id is not null;
create index events_batch on events (eeid) where eeid is not null;

-- How many events there are, by minute, hour and day (UTC): a column for each kind, machines' events in one of their
-- own. Writers only append to event_count_deltas, in the transaction that stores the events, so that no two of them
-- ever wait for each other; deltas are folded into event_counts from time to time (services/store/event-counts.ts).
-- The sum of both is exact at any moment.
create table event_count_deltas (
  instance_id  bigint      not null,
  minute       timestamptz not null,
  sent         integer     not null,
  viewed       integer     not null,
  clicked      integer     not null,
  hard_bounce  integer     not null,
  soft_bounce  integer     not null,
  unsubscribed integer     not null,
  converted    integer     not null,
  invalidated  integer     not null,
  not_sent     integer     not null,
  revalidated  integer     not null,
  complained   integer     not null,
  machine      integer     not null
);
create index event_count_deltas_instance on event_count_deltas (instance_id, minute);

create table event_counts (
  instance_id  bigint      not null,
  grain        text        not null check (grain in ('minute', 'hour', 'day')),
  bucket       timestamptz not null,
  sent         integer     not null,
  viewed       integer     not null,
  clicked      integer     not null,
  hard_bounce  integer     not null,
  soft_bounce  integer     not null,
  unsubscribed integer     not null,
  converted    integer     not null,
  invalidated  integer     not null,
  not_sent     integer     not null,
  revalidated  integer     not null,
  complained   integer     not null,
  machine      integer     not null,
  primary key (instance_id, grain, bucket)
);

create view event_totals as
  select * from event_counts
  union all
  select instance_id, grain, date_trunc(grain, minute, 'UTC'), sent, viewed, clicked, hard_bounce, soft_bounce,
    unsubscribed, converted, invalidated, not_sent, revalidated, complained, machine
  from event_count_deltas cross join (values ('minute'), ('hour'), ('day')) as grains (grain);
