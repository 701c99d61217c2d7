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
