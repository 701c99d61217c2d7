-- Campaigns, and of those of type normal what they send: to groups and filters, now or later, paused, resumed, cancelled.

create table campaigns (
  numid               bigint generated always as identity,
  id                  uuid        not null default gen_random_uuid(),
  instance_id         bigint      not null references instances on delete cascade,
  type                text        not null check (type in ('api', 'normal', 'bulk')),
  name                text        not null,
  sender              text        not null default '',
  sender_name         text        not null default '',
  subject             text        not null default '',
  subject_uri         text        not null default '', -- set only where the subject is dynamic
  reply_to            text        not null default '',
  url                 text        not null default '',
  charset             text        not null default '',
  unsubscribe         boolean, -- whether its messages carry a link for it; null: not said
  apikey_sealed       text, -- only of type api
  apikey_hash         bytea,
  submission_archive  boolean     not null default false, -- keep the exact octets that each recipient gets
  submission_tracking boolean     not null default true,  -- count opens and clicks of HTML parts
  lost_batches        boolean     not null default false, -- batches of it are gone, and events of theirs may be there
  created_at          timestamptz not null default now(),
  primary key (numid, instance_id),
  unique (id, instance_id),
  check ((type = 'api') = (apikey_sealed is not null) and (apikey_sealed is null) = (apikey_hash is null))
);
create index campaigns_listing on campaigns (instance_id, numid);

create table campaign_unsubscriptions (
  contact_id     bigint      not null,
  campaign_numid bigint      not null,
  instance_id    bigint      not null,
  at             timestamptz not null default now(),
  primary key (contact_id, campaign_numid, instance_id),
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade,
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade
);

-- What a campaign of type normal sends, to whom, when, and how far it has come.
create table campaign_sends (
  campaign_numid   bigint      not null,
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
  pause_reason     jsonb, -- a sentence: code, values, message
  eeid             uuid,    -- from the start on
  message_id       bigint,
  recipients       integer, -- of the snapshot taken at the start
  gathered_through bigint      not null default 0, -- contact up to which the snapshot is queued
  -- What had been tried, and bounced, when a person last let it go on: a spike is judged from there.
  judged_tried     integer     not null default 0,
  judged_bounced   integer     not null default 0,
  withdrawn        boolean     not null default false, -- of a cancelled one: nothing of it is queued any more
  finished_at      timestamptz,
  modified_at      timestamptz not null default now(),
  primary key (campaign_numid, instance_id),
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade,
  check ((html is null) <> (url is null)),
  check ((paused_at is null) = (pause_reason is null))
);
create index campaign_sends_instance on campaign_sends (instance_id);
create index campaign_sends_open on campaign_sends (state)
  where state in ('scheduled', 'gathering', 'sending', 'cancelling') or state = 'cancelled' and not withdrawn;

-- The contacts that a campaign goes to, as they were at its start; emptied once they are queued.
create table campaign_recipients (
  campaign_numid bigint not null,
  contact_id     bigint not null,
  instance_id    bigint not null,
  primary key (campaign_numid, contact_id, instance_id),
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade
);
