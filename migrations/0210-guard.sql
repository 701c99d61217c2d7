-- What guards an instance from others, and others from it: how much it may send, whether it is held, and what is known of
-- how it behaves (core/mail/guard). An instance without a row of instance_guards may send without bounds, and costs nothing.
create table instance_guards (
  instance_id bigint      not null references instances on delete cascade,
  ramp_from   timestamptz, -- from when on its ramp counts; null: it has none, or that of config/sending-limits.json
  -- Held: nothing of it leaves, submission is told to come again, and sends by API are accepted or refused.
  held_at     timestamptz,
  held_reason jsonb, -- a sentence: code, values, message
  held_by     text,  -- a login, or guard
  held_sends  text        not null default 'accept' check (held_sends in ('accept', 'refuse')),
  judged_from timestamptz not null default 'epoch', -- what it did before no longer speaks against it
  detectors   jsonb       not null default '{}', -- what differs of config/guard.json: detector → action
  told        jsonb       not null default '{}', -- what was told of it without a hold: detector → when
  notify      text[]      not null default '{}', -- addresses that are written to when it is held
  primary key (instance_id),
  check ((held_at is null) = (held_reason is null) and (held_at is null) = (held_by is null))
);

-- How much may be sent within an hour and a day (UTC): by the instance in all, by a campaign, by a sender address. The
-- subject is the campaign's numid or the address's key; '' is the instance, or each campaign and sender without a row.
create table sending_limits (
  instance_id bigint not null references instances on delete cascade,
  scope       text   not null check (scope in ('instance', 'campaign', 'sender')),
  subject     text   not null default '',
  per_hour    bigint check (per_hour >= 0), -- null: no bound
  per_day     bigint check (per_day >= 0),
  over        text   not null check (over in ('refuse', 'wait')), -- what becomes of what is above
  primary key (instance_id, scope, subject),
  check (scope <> 'instance' or subject = '')
);

-- What was accepted for a window, of what has a limit; for windows to come, what waits for them. Changed with every accepted
-- send: in place, so that no index changes.
create table sending_counts (
  instance_id bigint      not null references instances on delete cascade,
  key         text        not null, -- 'instance', 'campaign <numid>', 'sender <address key>'
  grain       text        not null check (grain in ('hour', 'day')),
  starts_at   timestamptz not null,
  used        bigint      not null,
  primary key (instance_id, key, grain, starts_at)
) with (fillfactor = 50);
create index sending_counts_age on sending_counts (starts_at);

-- A campaign whose recipients are queued portion by portion waits for a window with room.
alter table campaign_sends add column waits_until timestamptz;

-- How many recipients had a last outcome, by minute. Workers only append to outcome_deltas, with the outcomes; who watches
-- the instances folds them into outcome_counts, and keeps a day of them.
create table outcome_deltas (
  instance_id bigint      not null,
  minute      timestamptz not null,
  tried       integer     not null
);
create table outcome_counts (
  instance_id bigint      not null,
  minute      timestamptz not null,
  tried       integer     not null,
  primary key (instance_id, minute)
);
create index outcome_counts_age on outcome_counts (minute);

-- From which countries credentials were used: 'campaign <numid>' by submission, 'instance key' by API.
create table credential_places (
  instance_id   bigint      not null references instances on delete cascade,
  credential    text        not null,
  country       text        not null, -- ISO 3166
  first_seen_at timestamptz not null default now(),
  last_seen_at  timestamptz not null default now(),
  judged_at     timestamptz, -- when somebody looked at it; null: it is new
  primary key (instance_id, credential, country)
);
create index credential_places_new on credential_places (instance_id) where judged_at is null;
