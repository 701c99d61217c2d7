-- What was accepted for sending. A batch (eeid) has one message per accepted call.

create table batches (
  eeid           uuid        not null,
  instance_id    bigint      not null references instances on delete cascade,
  campaign_numid bigint      not null,
  creator        text        not null, -- 'api', 'smtp', or a console login
  gathering      boolean     not null default false, -- more recipients are still to come
  held_at        timestamptz, -- paused: nothing of it is taken
  cancelled_at   timestamptz,
  -- From this moment on the batch is gone for whoever asks; what hangs on it is being removed, portion by portion.
  expired_at     timestamptz,
  created_at     timestamptz not null default now(),
  modified_at    timestamptz not null default now(),
  primary key (eeid, instance_id)
);
create index batches_campaign on batches (instance_id, campaign_numid, created_at);
create index batches_age on batches (instance_id, created_at, eeid);
create index batches_expired on batches (instance_id, eeid) where expired_at is not null;

-- What is sent, once per call: a template that is rendered per recipient, or finished octets from submission.
create table messages (
  id             bigint generated always as identity,
  instance_id    bigint      not null,
  eeid           uuid        not null,
  campaign_numid bigint      not null, -- of the call; a reused batch keeps its first one
  sender_domain  text        not null, -- of the From field, A-labels: whose DKIM key signs
  template       jsonb, -- StoredTemplate of services/store/mail/sends/messages.ts
  octets         bytea, -- an RFC 5322 message, CRLF only
  -- Of finished messages: whether List-Unsubscribe fields are added for each recipient, and of those whose HTML is tracked
  -- where each recipient's own URLs go and where its links lead (MessageTracking of services/core/mail/message-places.ts).
  unsubscribe    boolean     not null default false,
  tracking       jsonb,
  archive        boolean     not null default false,
  content_octets bigint      not null, -- of the content with its attachments: a worker makes room for them before it loads them
  held_for       interval    not null default '0', -- how long its batch was paused: that time is no part of its age
  trace_parent   text,        -- W3C trace context of the call; null where no traces are made
  created_at     timestamptz not null default now(),
  primary key (id, instance_id),
  foreign key (eeid, instance_id) references batches (eeid, instance_id) on delete cascade,
  check ((template is null) <> (octets is null))
);
create index messages_batch on messages (eeid);
alter table messages alter column octets set storage external; -- mail compresses badly, and the hot path reads it often

create table message_attachments (
  message_id   bigint   not null,
  position     smallint not null,
  instance_id  bigint   not null,
  filename     text     not null,
  content_type text, -- what its sender says it is; null: its name tells
  octets       bytea    not null,
  primary key (message_id, position, instance_id),
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade
);

-- First answers to calls that carried an Idempotency-Key; kept 24 hours.
create table idempotency_keys (
  instance_id bigint      not null references instances on delete cascade,
  key         text        not null,
  body_hash   bytea       not null,
  answer      jsonb       not null,
  created_at  timestamptz not null default now(),
  primary key (instance_id, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
