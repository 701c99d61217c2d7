-- What comes back: the MX listener, mailboxes at providers, and the sandbox's inbox.

-- What the MX listener and the mailboxes took: durable before its 250, read by the bounce worker, kept 30 days.
create table inbound_messages (
  id                bigint generated always as identity primary key,
  delivery_id       bigint, -- named by the return path's token
  feedback_address  text,   -- or the feedback address it came to
  about_delivery_id bigint, -- the delivery that a message at a feedback address turned out to be about
  mail_from         text        not null, -- '' for <>
  client_address    text,
  source            text, -- where a polled mailbox had it, so that a message taken twice is stored once
  octets            bytea       not null,
  received_at       timestamptz not null default now(),
  state             text        not null default 'waiting' check (state in ('waiting', 'leased', 'applied', 'quarantined')),
  attempts          integer     not null default 0,
  lease_owner       uuid,
  lease_until       timestamptz,
  finding           jsonb, -- what the worker understood
  unexplained       text,  -- why nothing followed: about nothing of ours, or not understood; null: understood, or it waits
  problem           text,  -- why it was put into quarantine
  quarantined_at    timestamptz,
  check ((delivery_id is null) <> (feedback_address is null))
);
alter table inbound_messages alter column octets set storage external;
create index inbound_messages_waiting on inbound_messages (id) where state = 'waiting';
create index inbound_messages_waiting_returns on inbound_messages (id) where state = 'waiting' and delivery_id is not null;
create index inbound_messages_waiting_feedback on inbound_messages (id) where state = 'waiting' and delivery_id is null;
create index inbound_messages_leased on inbound_messages (lease_until) where state = 'leased';
create index inbound_messages_age on inbound_messages (received_at);
create index inbound_messages_delivery on inbound_messages (delivery_id);
create index inbound_messages_about on inbound_messages (about_delivery_id) where about_delivery_id is not null;
create unique index inbound_messages_source on inbound_messages (source) where source is not null;
create index inbound_messages_unexplained on inbound_messages (id) where unexplained is not null;
create index inbound_messages_quarantined on inbound_messages (received_at) where state = 'quarantined';

-- Newest first, for what operators look at of the words that nobody understood.
create index inbound_messages_unknown on inbound_messages (id) where finding -> 'unknown' is not null;

-- What an operator says that words of mail systems mean; before everything that the tables of config/bounces say.
create table bounce_wordings (
  id         bigint generated always as identity primary key,
  words      text        not null unique, -- lower case, single blanks; * stands for what varies
  reason     text        not null,
  command    text, -- only in a reply to it; null: in any
  created_at timestamptz not null default now(),
  created_by text        not null
);

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
