-- What makes a zone a feed of policy rules (RPZ), or a catalog (RFC 9432); the serial is the zone's.

create table rpz_feeds (
  zone_id bigint primary key references zones on delete cascade,
  rules   bigint not null default 0 -- distinct triggers
);

create table rpz_activations (
  zone_id     bigint not null references rpz_feeds on delete cascade,
  reseller_id text   not null references resellers on delete cascade,
  primary key (zone_id, reseller_id)
);
create index rpz_activations_reseller on rpz_activations (reseller_id);

create table rpz_expiries (
  record_id  bigint      primary key references records on delete cascade,
  zone_id    bigint      not null references rpz_feeds on delete cascade,
  expires_at timestamptz not null
);
create index rpz_expiries_due on rpz_expiries (expires_at);

-- Names that no rule may cover, nor names below them.
create table rpz_safe_names (
  name     text  primary key, -- as zones.name
  name_key bytea not null unique
);

-- The zones that a catalog lists, each with the record that does so.
create table catalog_members (
  catalog_id bigint not null references zones on delete cascade,
  zone_id    bigint not null, -- of a zone that may be gone already
  record_id  bigint not null references records on delete cascade,
  primary key (catalog_id, zone_id)
);
