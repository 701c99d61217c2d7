-- Events told to a customer's own server: one webhook per instance, in the order in which the events were stored.

create table webhooks (
  instance_id     bigint primary key references instances on delete cascade,
  url             text        not null,
  secret_sealed   text        not null, -- keys the signature
  failures        integer     not null default 0, -- in a row
  next_attempt_at timestamptz not null default now(),
  lease_owner     uuid,
  lease_until     timestamptz,
  created_at      timestamptz not null default now()
);

-- Who has a webhook, and nothing else of it, for whoever stores events.
create view webhook_instances as select distinct instance_id from webhooks;

-- Events that are to be told and stand in no batch yet; put here by the statement that stores an event.
create table webhook_events (
  serial      bigint generated always as identity,
  instance_id bigint      not null references webhooks on delete cascade,
  at          timestamptz not null,
  event_id    bigint      not null,
  primary key (instance_id, serial)
);

-- What was sent, or will be: the log, and what a replay repeats.
create table webhook_batches (
  id          bigint generated always as identity,
  instance_id bigint      not null references webhooks on delete cascade,
  body        text        not null,
  events      integer     not null,
  state       text        not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
  attempts    integer     not null default 0,
  give_up_at  timestamptz not null,
  outcome     jsonb, -- of the last attempt: a sentence (code, values, message)
  created_at  timestamptz not null default now(),
  finished_at timestamptz,
  primary key (id, instance_id)
);
create index webhook_batches_waiting on webhook_batches (instance_id, id) where state = 'waiting';
create index webhook_batches_log on webhook_batches (instance_id, id);
create index webhook_batches_age on webhook_batches (created_at);
