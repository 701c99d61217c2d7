-- Who is not to be mailed, beside what contacts, the whitelist and unsubscriptions say; and events as a feed that any number
-- of webhooks and streams read.

-- step

-- Addresses and whole domains that an instance does not mail: put there by hand, brought in from elsewhere, or left by an
-- erasure. The key is what stands in contacts.email_key, or `@` and a domain as A-labels, or `#` and the digest of an
-- erased address (services/store/mail/contacts/suppressions.ts).
create table suppressions (
  instance_id bigint      not null references instances on delete cascade,
  key         text        not null,
  kind        text        not null check (kind in ('by-hand', 'invalid', 'complaint', 'unsubscribed', 'erased')),
  target      text, -- as it was given; null of an erased address
  note        text        not null default '',
  creator     text        not null default '', -- login of who put it there; empty: a command
  since       timestamptz not null default now(),
  primary key (instance_id, key),
  check ((kind = 'erased') = (target is null))
);

-- The same of the operator, for all instances; no instance sees them.
create table global_suppressions (
  key     text        primary key,
  kind    text        not null check (kind in ('by-hand', 'invalid', 'complaint', 'unsubscribed')),
  target  text        not null,
  note    text        not null default '',
  creator text        not null default '',
  since   timestamptz not null default now()
);

-- step, outside a transaction
create index concurrently if not exists contacts_unsubscribed on contacts (instance_id, id) where unsubscribed_at is not null;

-- step, outside a transaction
create index concurrently if not exists campaign_unsubscriptions_listing
  on campaign_unsubscriptions (instance_id, contact_id, campaign_numid);

-- step

-- The feed of an instance whose events are told: webhook_events has what is to be told, each with a place in one order as soon
-- as it has one. Numbers of a sequence become visible out of order; places are given to what is visible, under the lock of
-- this row, so whoever has read up to a place has missed nothing before it.
create table event_feeds (
  instance_id    bigint primary key references instances on delete cascade,
  position       bigint      not null default 0, -- the last place that was given
  streamed_until timestamptz not null default '-infinity' -- until when events are kept for streams as well
);

insert into event_feeds (instance_id) select instance_id from webhooks;

-- Any number of webhooks an instance. The one that there was is called `events`, and stays as it is.
alter table webhook_events drop constraint webhook_events_instance_id_fkey;
alter table webhook_batches drop constraint webhook_batches_instance_id_fkey;
alter table webhooks
  add column name text not null default 'events',
  add column kinds smallint[], -- services/store/mail/events/event-kinds.ts; null: those that `ver_eventos` shows
  add column campaigns bigint[], -- null: all, and what is of none
  add column condition jsonb, -- of a filter, over the contact; null: all
  add column is_full boolean not null default false, -- whether it is told why, and how
  add column position bigint not null default 0, -- up to here the feed is in its batches
  drop constraint webhooks_pkey,
  add primary key (instance_id, name);

-- `event_id` of what stands in events; the rest of what became of a delivery, which stands nowhere else.
alter table webhook_events
  alter column event_id drop not null,
  add column kind smallint, -- null: as in events
  add column delivery_id bigint,
  add column detail jsonb,
  add column position bigint, -- null: it has none yet
  add column stored_at timestamptz not null default now(),
  add foreign key (instance_id) references event_feeds on delete cascade,
  add check ((event_id is null) <> (delivery_id is null));
create unique index webhook_events_position on webhook_events (instance_id, position) where position is not null;
create index webhook_events_unplaced on webhook_events (instance_id, serial) where position is null;
create index webhook_events_delivery on webhook_events (delivery_id) where delivery_id is not null;

alter table webhook_batches
  add column webhook text not null default 'events',
  add foreign key (instance_id, webhook) references webhooks (instance_id, name) on delete cascade;

-- Whose events are told, and whether what becomes of deliveries is as well (12 to 14: delivered, deferred, cancelled).
create or replace view webhook_instances as
  select instance_id, streamed_until > now() or exists (
      select from webhooks w where w.instance_id = f.instance_id and w.kinds && array[12, 13, 14]::smallint[]
    ) as deliveries
  from event_feeds f
  where streamed_until > now() or exists (select from webhooks w where w.instance_id = f.instance_id);
