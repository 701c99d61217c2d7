-- What recipients touch: where links lead, what was already taken from the spool files, conversions.

-- The targets of a message's links, before its first copy leaves. A link's name follows from its target alone, so that
-- all workers agree on it.
create table tracked_links (
  serial      bigint generated always as identity, -- about the order in which they became known
  message_id  bigint not null,
  link        text   not null, -- LinkId of services/core/mail/tracking-html.ts
  instance_id bigint not null,
  target      text   not null, -- as written, personal tags included
  hidden      boolean not null default false, -- where no reader can see it
  primary key (message_id, link, instance_id),
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade
);
create index tracked_links_serial on tracked_links (serial);

-- How far a spool of the tracking service is stored: written in the transaction that stores its events, so that a
-- crash between the two neither loses nor doubles any.
create table tracking_positions (
  spool      uuid primary key,
  segment    bigint      not null,
  "offset"   bigint      not null,
  updated_at timestamptz not null default now()
);

-- An order counts once.
create table conversions (
  instance_id bigint      not null references instances on delete cascade,
  reference   text        not null,
  contact_id  bigint,
  delivery_id bigint      not null,
  at          timestamptz not null,
  primary key (instance_id, reference),
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade
);
create index conversions_contact on conversions (contact_id);
