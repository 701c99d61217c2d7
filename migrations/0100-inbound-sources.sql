-- What came back by other ways, and what operators do with what nobody understood. The table holds thirty days of
-- messages; adding columns without a default rewrites nothing.

alter table inbound_messages
  add column about_delivery_id bigint, -- the delivery that a message at a feedback address turned out to be about
  add column quarantined_at    timestamptz,
  -- Where a polled mailbox had it, so that a message taken twice is stored once.
  add column source            text;
create index inbound_messages_about on inbound_messages (about_delivery_id) where about_delivery_id is not null;
create unique index inbound_messages_source on inbound_messages (source) where source is not null;
update inbound_messages set quarantined_at = received_at where state = 'quarantined';

-- Mailboxes at providers whose messages are taken like those of the MX listener.
create table mailboxes (
  name            text        primary key,
  host            text        not null,
  port            integer     not null,
  security        text        not null check (security in ('tls', 'starttls', 'none')),
  username        text        not null,
  password_sealed text        not null,
  folder          text        not null,
  processed       text, -- the folder that taken messages move to; null: they stay, flagged as seen
  feedback        text        not null, -- the address that messages without a token count as sent to
  next_poll_at    timestamptz not null default now(),
  lease_owner     uuid,
  lease_until     timestamptz,
  polled_at       timestamptz, -- last success
  problem         text,        -- of the last attempt
  created_at      timestamptz not null default now()
);
