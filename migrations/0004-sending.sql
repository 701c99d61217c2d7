-- From an accepted send to its last outcome. A batch (eeid) has one message per accepted call; a message is cut into
-- partitions, each for one destination domain; a partition holds the deliveries of its recipients. Workers lease whole
-- partitions, so what changes often (state, lease, counts) is a row per partition that only its holder writes.

create table batches (
  eeid           uuid primary key,
  instance_id    bigint      not null references instances on delete cascade,
  campaign_numid bigint      not null,
  creator        text        not null, -- 'api', 'smtp', or a console login
  created_at     timestamptz not null default now(),
  modified_at    timestamptz not null default now(),
  cancelled_at   timestamptz
);
create index batches_campaign on batches (instance_id, campaign_numid, created_at);

-- What is sent, once per call: a template that is rendered per recipient, or finished octets from submission.
create table messages (
  id             bigint generated always as identity primary key,
  eeid           uuid        not null references batches on delete cascade,
  campaign_numid bigint      not null, -- of the call; a reused batch keeps its first one
  sender_domain  text        not null, -- of the From field, A-labels: whose DKIM key signs
  template       jsonb, -- StoredTemplate of services/store/messages.ts
  octets         bytea, -- an RFC 5322 message, CRLF only
  archive        boolean     not null default false,
  created_at     timestamptz not null default now(),
  check ((template is null) <> (octets is null))
);
create index messages_batch on messages (eeid);
alter table messages alter column octets set storage external; -- mail compresses badly, and the hot path reads it often

create table message_attachments (
  message_id bigint   not null references messages on delete cascade,
  position   smallint not null,
  filename   text     not null,
  octets     bytea    not null,
  primary key (message_id, position)
);

create table partitions (
  id          bigint generated always as identity primary key,
  eeid        uuid        not null references batches on delete cascade,
  message_id  bigint      not null references messages on delete cascade,
  destination text        collate "C" not null, -- the recipients' domain, lower case, A-labels
  state       text        not null default 'ready' check (state in ('ready', 'leased', 'deferred', 'held', 'finished')),
  recipients  integer     not null,
  refused     integer     not null default 0, -- recipients refused for good
  due_at      timestamptz not null default now(),
  taken_at    timestamptz, -- when a worker first took it
  lease_owner uuid,
  lease_until timestamptz,
  modified_at timestamptz not null default now()
);
create index partitions_batch on partitions (eeid);
create index partitions_message on partitions (message_id);
-- Leasing hops from destination to destination (see services/store/queue.ts), so its cost does not grow with the queue.
create index partitions_ready on partitions (destination, id) where state = 'ready';
create index partitions_deferred on partitions (due_at) where state = 'deferred';
create index partitions_leased on partitions (lease_until) where state = 'leased';

-- One recipient of one message. `id` is what the return path's token names.
create table deliveries (
  id           bigint generated always as identity primary key,
  partition_id bigint      not null references partitions on delete cascade,
  contact_id   bigint, -- null for a copy to an address that is no contact
  role         text        not null check (role in ('to', 'cc', 'bcc')),
  recipient    text        not null, -- address as it was given
  personal     jsonb, -- values of the template's tags; removed with the last outcome
  state        text        not null default 'queued' check (state in ('queued', 'delivered', 'refused', 'cancelled')),
  attempts     integer     not null default 0,
  due_at       timestamptz not null default now(),
  reply        text, -- the far side's last words
  finished_at  timestamptz,
  bounce       text check (bounce in ('hard', 'soft')), -- recorded once, by the session or by a report, whichever came first
  bounced_at   timestamptz,
  complained_at timestamptz
);
create index deliveries_queued on deliveries (partition_id) where state = 'queued';
create index deliveries_partition on deliveries (partition_id);
create index deliveries_contact on deliveries (contact_id);

-- Destinations in trouble: left alone until then by every worker.
create table destination_backoffs (
  destination text collate "C" primary key,
  until       timestamptz not null,
  reason      text not null
);

-- Exact octets as they left, per recipient of a batch sent with `archive`.
create table archived_messages (
  delivery_id   bigint primary key references deliveries on delete cascade,
  eeid          uuid        not null,
  recipient_key text        not null, -- exact local part @ lower-case A-labels
  octets        bytea       not null,
  sent_at       timestamptz not null
);
create index archived_messages_recipient on archived_messages (eeid, recipient_key);

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

-- What the MX listener took: durable before its 250, read by the bounce worker, kept 30 days.
create table inbound_messages (
  id               bigint generated always as identity primary key,
  delivery_id      bigint, -- named by the return path's token
  feedback_address text,   -- or the feedback address it came to
  mail_from        text        not null, -- '' for <>
  client_address   text,
  octets           bytea       not null,
  received_at      timestamptz not null default now(),
  state            text        not null default 'waiting' check (state in ('waiting', 'leased', 'applied', 'quarantined')),
  attempts         integer     not null default 0,
  lease_owner      uuid,
  lease_until      timestamptz,
  finding          jsonb, -- what the worker understood
  problem          text,  -- why it was put into quarantine
  check ((delivery_id is null) <> (feedback_address is null))
);
create index inbound_messages_waiting on inbound_messages (id) where state = 'waiting';
create index inbound_messages_leased on inbound_messages (lease_until) where state = 'leased';
create index inbound_messages_age on inbound_messages (received_at);
create index inbound_messages_delivery on inbound_messages (delivery_id);
create index inbound_messages_quarantined on inbound_messages (received_at) where state = 'quarantined';
alter table inbound_messages alter column octets set storage external;

-- The sandbox's inbox.
create table sandbox_messages (
  id          bigint generated always as identity primary key,
  mail_from   text        not null, -- '' for <>
  rcpt_to     text        not null,
  sender      text        not null, -- address of the From field
  subject     text        not null,
  octets      bytea       not null,
  received_at timestamptz not null default now(),
  outcome     text        not null check (outcome in ('accepted', 'bounced', 'full', 'complained')),
  report_due  boolean     not null default false -- a report is still owed to the sender
);
create index sandbox_messages_reports on sandbox_messages (id) where report_due;
create index sandbox_messages_age on sandbox_messages (received_at);

-- Attempts that the sandbox put off so far; a return path is unique to a message.
create table sandbox_deferrals (
  mail_from  text        not null,
  rcpt_to    text        not null,
  attempts   integer     not null,
  updated_at timestamptz not null default now(),
  primary key (mail_from, rcpt_to)
);
