-- What guards an instance from others, and others from it: how much it may send, whether it is held, and what is known of
-- how it behaves (core/mail/guard). An instance without a row of instance_guards may send without bounds, and costs nothing.
create table instance_guards (
  instance_id bigint      not null references instances on delete cascade,
  ramp_from   timestamptz, -- from when on its ramp counts; null: it has none, or that of config/sending-limits.json
  primary key (instance_id)
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
