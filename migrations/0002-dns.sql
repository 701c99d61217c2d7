-- Zones as they are edited. The servers read them through changed_xid (see services/store/published-zones.ts):
-- a row is new to a reader whose last snapshot had xmin X exactly when changed_xid >= X, so no commit is missed.

create table zones (
  id                bigint generated always as identity primary key,
  reseller_id       text        not null references resellers on delete cascade,
  company_id        bigint      not null references companies on delete cascade,
  name              text        not null unique, -- presentation form, A-labels, lower case, no final dot
  name_key          bytea       not null unique, -- canonical order as octets, core/dns nameSortKey
  apex              bytea       not null,        -- wire form, lower case
  suspended         boolean     not null default false,
  company_suspended boolean     not null default false,
  serial_type       text        not null check (serial_type in ('numeric', 'calendar')),
  serial            bigint      not null check (serial between 0 and 4294967295),
  mname             bytea       not null,        -- wire form
  rname             bytea       not null,
  refresh           bigint      not null check (refresh between 0 and 2147483647),
  retry             bigint      not null check (retry between 0 and 2147483647),
  expire            bigint      not null check (expire between 0 and 2147483647),
  minimum           bigint      not null check (minimum between 0 and 2147483647),
  ttl               bigint      not null check (ttl between 0 and 2147483647), -- of the SOA, and the default of records
  version           bigint      not null default 1, -- counts every change, suspensions included
  changed_xid       xid8        not null default pg_current_xact_id(),
  created_at        timestamptz not null default now()
);
create index zones_company on zones (company_id, name_key);
create index zones_reseller on zones (reseller_id, name_key);
create index zones_changed on zones (changed_xid);

create table records (
  id        bigint generated always as identity primary key, -- the API's rr_id
  zone_id   bigint  not null references zones on delete cascade,
  owner     bytea   not null, -- wire form, absolute, case kept
  owner_key bytea   not null, -- nameSortKey(owner)
  type      integer not null check (type between 1 and 65535),
  ttl       bigint  not null check (ttl between 0 and 2147483647),
  rdata     bytea   not null  -- wire form, uncompressed
);
create index records_place on records (zone_id, owner_key, type);

-- One row per published change, in the form that IXFR (RFC 1995) and the history need: RRs in wire form one after
-- another (core/dns encodeRecords), the SOA first in each column. A version without a row was a change that the
-- journal does not hold; readers then take the whole zone.
create table zone_journal (
  zone_id       bigint      not null references zones on delete cascade,
  version       bigint      not null,
  serial_before bigint,
  serial        bigint      not null,
  at            timestamptz not null default now(),
  actor         text        not null,
  deleted       bytea       not null,
  added         bytea       not null,
  primary key (zone_id, version)
);

-- What readers must forget. Rows are removed after a day.
create table zone_deletions (
  zone_id     bigint      not null,
  apex        bytea       not null,
  changed_xid xid8        not null default pg_current_xact_id(),
  deleted_at  timestamptz not null default now()
);
create index zone_deletions_changed on zone_deletions (changed_xid);

create table resolver_blocks (
  reseller_id text not null references resellers on delete cascade,
  block       cidr not null,
  description text not null default '',
  primary key (reseller_id, block)
);

create table tsig_keys (
  id            bigint generated always as identity primary key,
  name          text  not null unique, -- a domain name, lower case, no final dot: unique in the deployment
  algorithm     text  not null,
  secret_sealed text  not null
);

create table acls (
  id          bigint generated always as identity primary key,
  reseller_id text   not null references resellers on delete cascade,
  name        text   not null,
  blocks      cidr[] not null default '{}',
  tsig_key_id bigint references tsig_keys,
  zones       text[], -- null: all zones of the reseller
  notify      text[] not null default '{}', -- host:port
  unique (reseller_id, name)
);
