-- Campaigns of type normal: a send to groups and filters, now or later, that can be paused, resumed and cancelled; and
-- the operator's hand on destinations. Columns are added with constant defaults: no table is rewritten.

-- What a campaign of type normal sends, to whom, when, and how far it has come.
create table campaign_sends (
  campaign_numid   bigint      primary key references campaigns on delete cascade,
  instance_id      bigint      not null references instances on delete cascade,
  sender           text        not null,
  sender_name      text        not null,
  subject          text        not null,
  html             text, -- the message itself,
  url              text, -- or where it is fetched from at the start
  groups           text[]      not null,
  filters          bigint[]    not null,
  state            text        not null default 'draft'
    check (state in ('draft', 'scheduled', 'gathering', 'sending', 'sent', 'cancelling', 'cancelled')),
  creator          text        not null, -- login of who wrote or started it
  starts_at        timestamptz,
  claimed_until    timestamptz, -- somebody is starting it
  paused_at        timestamptz,
  pause_reason     text,
  eeid             uuid,   -- from the start on
  message_id       bigint,
  recipients       integer, -- of the snapshot taken at the start
  gathered_through bigint      not null default 0, -- contact up to which the snapshot is queued
  -- What had been tried, and bounced, when a person last let it go on: a spike is judged from there.
  judged_tried     integer     not null default 0,
  judged_bounced   integer     not null default 0,
  withdrawn        boolean     not null default false, -- of a cancelled one: nothing of it is queued any more
  finished_at      timestamptz,
  modified_at      timestamptz not null default now(),
  check ((html is null) <> (url is null))
);
create index campaign_sends_instance on campaign_sends (instance_id);
create index campaign_sends_open on campaign_sends (state)
  where state in ('scheduled', 'gathering', 'sending', 'cancelling') or state = 'cancelled' and not withdrawn;

-- The contacts that a campaign goes to, as they were at its start; emptied once they are queued.
create table campaign_recipients (
  campaign_numid bigint not null references campaigns on delete cascade,
  contact_id     bigint not null,
  primary key (campaign_numid, contact_id)
);

alter table batches
  add column gathering boolean not null default false, -- more recipients are still to come
  add column held_at   timestamptz;                    -- paused: nothing of it is taken

alter table partitions
  add column stopping     boolean not null default false, -- its holder begins no further message
  add column hard_bounces integer not null default 0;     -- learnt in the session or from reports
-- Nothing is held yet: the index is made in one look at the table.
create index partitions_held on partitions (destination) where state = 'held';

-- Destinations that an operator holds: no worker turns to them until they are released.
create table destination_holds (
  destination text        collate "C" primary key,
  login       text        not null,
  held_at     timestamptz not null default now()
);
