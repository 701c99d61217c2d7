-- Contacts, and what selects and describes them. Every row says of which instance it is, and every key and foreign key
-- contains that, so that an instance's rows can lie on a machine of their own (docs/scaling.md). Ids are unique over the
-- deployment and come first in the keys: who knows an id alone finds its row.

create table contacts (
  id                 bigint generated always as identity, -- the API's numid
  instance_id        bigint      not null references instances on delete cascade,
  email              text        not null, -- as given, the domain in lower case
  email_key          text        not null, -- exact local part @ A-label domain in lower case: what equal addresses share
  first_name         text        not null default '',
  last_name          text        not null default '',
  age                smallint,
  sex                text        not null default '',
  profession         text        not null default '',
  locality           text        not null default '',
  country_code       text        not null default '',
  region_code        text        not null default '',
  city               text        not null default '',
  device             text        not null default '',
  device_subtype_id  integer,
  domain_group_id    smallint    not null default 0, -- config/domain-groups.json
  fields             jsonb       not null default '{}', -- custom fields: name without its XYZ wrapping → text
  invalid            boolean     not null default false,
  bounces_count_from timestamptz not null default '-infinity', -- hard bounces before it no longer count
  unsubscribed_at    timestamptz, -- from everything of the instance
  untracked          boolean     not null default false, -- wants no opens and clicks stored
  last_operation     text        not null default 'created'
    check (last_operation in ('created', 'modified', 'imported', 'invalidated', 'revalidated', 'unsubscribed')),
  created_at         timestamptz not null default now(),
  updated_at         timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, email_key)
);
create index contacts_listing on contacts (instance_id, id);
create index contacts_invalid on contacts (instance_id, id) where invalid;

create table groups (
  id          bigint generated always as identity,
  instance_id bigint      not null references instances on delete cascade,
  name        text        not null,
  created_at  timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, name)
);

create table contact_groups (
  contact_id  bigint not null,
  group_id    bigint not null,
  instance_id bigint not null,
  primary key (contact_id, group_id, instance_id),
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade,
  foreign key (group_id, instance_id) references groups (id, instance_id) on delete cascade
);
create index contact_groups_members on contact_groups (group_id, contact_id);

-- Addresses, contacts or not, that nothing may make invalid.
create table whitelist (
  instance_id bigint      not null references instances on delete cascade,
  email_key   text        not null,
  created_at  timestamptz not null default now(),
  primary key (instance_id, email_key)
);

create table globals (
  instance_id bigint not null references instances on delete cascade,
  key         text   not null, -- the name without its XYZ wrapping
  name        text   not null, -- as it was given
  value       text   not null,
  primary key (instance_id, key)
);

-- Saved conditions over contacts, as data (services/store/mail/contacts/filter-conditions.ts).
create table filters (
  id          bigint generated always as identity,
  instance_id bigint      not null references instances on delete cascade,
  name        text        not null,
  conditions  jsonb       not null,
  created_at  timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, name)
);
