-- Response policy zones that the operator keeps, and the resellers that have them active.

create table rpz_feeds (
  id         bigint generated always as identity primary key,
  name       text        not null unique, -- as zones.name
  name_key   bytea       not null unique, -- canonical order as octets, core/dns nameSortKey
  serial     bigint      not null default 1 check (serial between 0 and 4294967295),
  rules      bigint      not null default 0, -- distinct triggers
  created_at timestamptz not null default now()
);

create table rpz_activations (
  feed_id     bigint not null references rpz_feeds on delete cascade,
  reseller_id text   not null references resellers on delete cascade,
  primary key (feed_id, reseller_id)
);
create index rpz_activations_reseller on rpz_activations (reseller_id);
