-- Events: append-only, a partition a month (services/store/mail/events/event-partitions.ts makes them). No foreign keys:
-- events are written by the ten thousand, and whoever deletes a contact deletes its events in the same transaction.
-- Without a cache: of events within one millisecond the ids tell the order.
create sequence event_ids;
create table events (
  instance_id    bigint      not null,
  at             timestamptz not null,
  id             bigint      not null default nextval('event_ids'),
  kind           smallint    not null, -- services/store/mail/events/event-kinds.ts
  machine        boolean     not null default false,
  contact_id     bigint,
  campaign_numid bigint,
  delivery_id    bigint,
  eeid           uuid,
  email          text, -- only of events without a contact (copies)
  detail         jsonb,
  primary key (instance_id, at, id) include (kind, machine)
) partition by range (at);
-- A contact's history lies scattered over the months: the index alone tells it.
create index events_contact on events (contact_id, at, id) include (kind, machine, campaign_numid)
  where contact_id is not null;
create index events_batch on events (eeid) where eeid is not null;
-- Bounces alone, a few in a hundred events (4 hard, 5 soft): statistics over them need not look at all events.
create index events_bounces on events (instance_id, at) where kind in (4, 5);

-- A service's own role may neither make nor drop the months of the table, which takes its owner
-- (config/database-roles.json): these run as the owner, with the search path that they are made under.
create function make_events_month(first_day date) returns void language plpgsql security definer
set search_path from current as $$
declare
  month text := 'events_' || to_char(first_day, 'YYYY_MM');
begin
  execute format('create table %I (like events including defaults including constraints)', month);
  -- Attaching a finished table does not block readers or writers of the others, unlike `create … partition of`.
  execute format(
    'alter table events attach partition %I for values from (%L) to (%L)', month,
    to_char(first_day, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(first_day + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
end
$$;

-- Drops a month that holds nothing any more; false when it does. The caller sets a lock_timeout.
create function drop_events_month(first_day date) returns boolean language plpgsql security definer
set search_path from current as $$
declare
  month text := 'events_' || to_char(first_day, 'YYYY_MM');
  empty boolean;
begin
  lock table only events in access exclusive mode;
  execute format('lock table %I in access exclusive mode', month);
  execute format('select not exists (select from %I)', month) into empty;
  if empty then
    execute format('drop table %I', month);
  end if;
  return empty;
end
$$;

-- How many events there are, by minute, hour and day (UTC): a column for each kind as people did it, and two for what
-- machines opened and clicked. Writers only append to event_count_deltas, in the transaction that stores the events, so
-- that no two of them ever wait for each other; deltas are folded into event_counts from time to time
-- (services/store/mail/events/event-counts.ts). The sum of both is exact at any moment.
create table event_count_deltas (
  instance_id     bigint      not null,
  minute          timestamptz not null,
  sent            integer     not null,
  viewed          integer     not null,
  clicked         integer     not null,
  hard_bounce     integer     not null,
  soft_bounce     integer     not null,
  unsubscribed    integer     not null,
  converted       integer     not null,
  invalidated     integer     not null,
  not_sent        integer     not null,
  revalidated     integer     not null,
  complained      integer     not null,
  machine_viewed  integer     not null,
  machine_clicked integer     not null
);
create index event_count_deltas_instance on event_count_deltas (instance_id, minute);

create table event_counts (
  instance_id     bigint      not null,
  grain           text        not null check (grain in ('minute', 'hour', 'day')),
  bucket          timestamptz not null,
  sent            integer     not null,
  viewed          integer     not null,
  clicked         integer     not null,
  hard_bounce     integer     not null,
  soft_bounce     integer     not null,
  unsubscribed    integer     not null,
  converted       integer     not null,
  invalidated     integer     not null,
  not_sent        integer     not null,
  revalidated     integer     not null,
  complained      integer     not null,
  machine_viewed  integer     not null,
  machine_clicked integer     not null,
  primary key (instance_id, grain, bucket)
);

create view event_totals as
  select * from event_counts
  union all
  select instance_id, grain, date_trunc(grain, minute, 'UTC'), sent, viewed, clicked, hard_bounce, soft_bounce,
    unsubscribed, converted, invalidated, not_sent, revalidated, complained, machine_viewed, machine_clicked
  from event_count_deltas cross join (values ('minute'), ('hour'), ('day')) as grains (grain);
