-- The queue. A message is cut into partitions, each for one destination domain; a partition holds the deliveries of its
-- recipients. Workers lease whole partitions, so what changes often (state, lease, counts) is a row per partition that
-- only its holder writes.

create table partitions (
  id           bigint generated always as identity,
  instance_id  bigint      not null,
  eeid         uuid        not null,
  message_id   bigint      not null,
  destination  text        collate "C" not null, -- the recipients' domain, lower case, A-labels
  state        text        not null default 'ready' check (state in ('ready', 'leased', 'deferred', 'held', 'finished')),
  recipients   integer     not null,
  refused      integer     not null default 0, -- recipients refused for good
  hard_bounces integer     not null default 0, -- learnt in the session or from reports
  stopping     boolean     not null default false, -- its holder begins no further message
  due_at       timestamptz not null default now(),
  taken_at     timestamptz, -- when a worker first took it
  lease_owner  uuid,
  lease_until  timestamptz,
  modified_at  timestamptz not null default now(),
  primary key (id, instance_id),
  foreign key (eeid, instance_id) references batches (eeid, instance_id) on delete cascade,
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade
);
create index partitions_batch on partitions (eeid);
create index partitions_message on partitions (message_id);
-- Workers visit instances in turn, and each instance's destinations in turn: leasing costs the same however much is queued.
create index partitions_ready_by_instance on partitions (instance_id, destination, id) where state = 'ready';
create index partitions_deferred on partitions (due_at) where state = 'deferred';
create index partitions_leased on partitions (lease_until) where state = 'leased';
create index partitions_held on partitions (destination) where state = 'held';

-- One recipient of one message. `id` is what the return path's token names. Outcomes are updated in place (HOT): no index
-- holds a column that they change, and pages keep room for them.
create table deliveries (
  id            bigint generated always as identity,
  instance_id   bigint      not null,
  partition_id  bigint      not null,
  contact_id    bigint, -- null for a copy to an address that is no contact
  role          text        not null check (role in ('to', 'cc', 'bcc')),
  recipient     text        not null, -- address as it was given
  personal      jsonb, -- values of the template's tags; removed with the last outcome
  state         text        not null default 'queued' check (state in ('queued', 'delivered', 'refused', 'cancelled')),
  attempts      integer     not null default 0,
  due_at        timestamptz not null default now(),
  reply         text, -- the far side's last words
  finished_at   timestamptz,
  bounce        text check (bounce in ('hard', 'soft')), -- recorded once, by the session or by a report, whichever came first
  bounced_at    timestamptz,
  complained_at timestamptz,
  primary key (id, instance_id),
  foreign key (partition_id, instance_id) references partitions (id, instance_id) on delete cascade
) with (fillfactor = 80);
create index deliveries_partition on deliveries (partition_id);
create index deliveries_contact on deliveries (contact_id);

-- Exact octets as they left, per recipient of a batch sent with `archive`.
create table archived_messages (
  delivery_id   bigint      not null,
  instance_id   bigint      not null,
  eeid          uuid        not null,
  recipient_key text        not null, -- exact local part @ lower-case A-labels
  octets        bytea       not null,
  sent_at       timestamptz not null,
  primary key (delivery_id, instance_id),
  foreign key (delivery_id, instance_id) references deliveries (id, instance_id) on delete cascade
);
create index archived_messages_recipient on archived_messages (eeid, recipient_key);

-- Destinations in trouble: left alone until then by every worker.
create table destination_backoffs (
  destination text        collate "C" primary key,
  until       timestamptz not null,
  reason      text        not null
);

-- Destinations that an operator holds: no worker turns to them until they are released.
create table destination_holds (
  destination text        collate "C" primary key,
  login       text        not null,
  held_at     timestamptz not null default now()
);

-- MTA-STS policies (RFC 8461) as they were fetched, shared by all workers.
create table sts_policies (
  domain     text        primary key,
  policy_id  text        not null,
  mode       text        not null check (mode in ('enforce', 'testing', 'none')),
  mx         text[]      not null,
  expires_at timestamptz not null,
  checked_at timestamptz not null default now() -- when the record in the DNS was last compared
);
