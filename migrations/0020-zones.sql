-- Zones as they are edited. The servers read them through changed_xid (services/store/dns/published-zones.ts): a row is new
-- to a reader whose last snapshot had xmin X exactly when changed_xid >= X, so no commit is missed.
-- There are three kinds: those that customers edit, response policy zones that the operator keeps, and catalogs (RFC 9432)
-- that list a reseller's zones. All share records, journal, publication and transfers. Only the first kind has a
-- company, so that whatever joins companies never sees the others.

create extension if not exists pg_trgm;

create table zones (
  id                bigint generated always as identity primary key,
  kind              text        not null default 'primary' check (kind in ('primary', 'feed', 'catalog')),
  reseller_id       text        references resellers on delete cascade,
  company_id        bigint      references companies on delete cascade,
  -- By whose leave it was made, which the rule of core/dns/zone-tenancy.ts asks for; null: not known.
  made_by           text check (made_by in ('operator', 'reseller', 'company')),
  name              text        not null unique, -- presentation form, A-labels, lower case, no final dot
  name_key          bytea       not null unique, -- canonical order as octets, core/dns nameSortKey
  apex              bytea       not null,        -- wire form, lower case
  suspended         boolean     not null default false,
  company_suspended boolean     not null default false,
  signed            boolean     not null default false,
  serial_type       text        not null check (serial_type in ('numeric', 'calendar')),
  serial            bigint      not null check (serial between 0 and 4294967295),
  mname             bytea       not null,        -- wire form
  rname             bytea       not null,
  refresh           bigint      not null check (refresh between 0 and 2147483647),
  retry             bigint      not null check (retry between 0 and 2147483647),
  expire            bigint      not null check (expire between 0 and 2147483647),
  minimum           bigint      not null check (minimum between 0 and 2147483647),
  ttl               bigint      not null check (ttl between 0 and 2147483647), -- of the SOA, and the default of records
  cached_until      timestamptz, -- until when caches may have data of larger TTLs than the zone has now
  -- What the zone takes: its customer's records, and the octets that the name servers need for it, signatures included
  -- (core/dns/zone-octets.ts). What is held is what the company and the reseller are charged with: a little more than
  -- the zone takes, so that most changes touch no row but the zone's.
  records           bigint      not null default 0,
  octets            bigint      not null default 0,
  records_held      bigint      not null default 0,
  octets_held       bigint      not null default 0,
  version           bigint      not null default 1, -- counts every change, suspensions included
  changed_xid       xid8        not null default pg_current_xact_id(),
  created_at        timestamptz not null default now(),
  constraint zones_owner check (
    case kind
      when 'primary' then reseller_id is not null and company_id is not null
      when 'catalog' then reseller_id is not null and company_id is null
      else reseller_id is null and company_id is null
    end)
);
create index zones_company on zones (company_id, name_key);
create index zones_reseller on zones (reseller_id, name_key);
create index zones_changed on zones (changed_xid);
create index zones_catalogs on zones (reseller_id) where kind = 'catalog';
-- By any part of the name, for the console's search.
create index zones_name_parts on zones using gin (name gin_trgm_ops);

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

-- Finds the NS, MX and SRV records that point to a name without reading the zone, for the warnings of whoever makes the
-- name a CNAME or takes its last address. The target is in the text form of encode(…, 'escape'), in lower case
-- (RFC 4343): NS (2), MX (15), SRV (33).
create function record_target(type integer, rdata bytea) returns text language sql immutable parallel safe as $$
  select lower(encode(substring(rdata from case type when 15 then 3 when 33 then 7 else 1 end), 'escape') collate "C")
$$;
create index records_target on records (zone_id, record_target(type, rdata)) where type in (2, 15, 33);

-- One row per published change, in the form that IXFR (RFC 1995) and the history need: RRs in wire form one after
-- another (core/dns encodeRecords), the SOA first in each column. A version without a row was a change that the journal
-- does not hold; readers then take the whole zone. What signing adds to a version stands apart: readers of zones take it
-- with the rest, the history shows what customers did.
create table zone_journal (
  zone_id         bigint      not null references zones on delete cascade,
  version         bigint      not null,
  serial_before   bigint,
  serial          bigint      not null,
  at              timestamptz not null default now(),
  actor           text        not null,
  deleted         bytea       not null,
  added           bytea       not null,
  derived_deleted bytea,
  derived_added   bytea,
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

-- Names below another reseller's zone that an operator lets a reseller have as zones of its own (`palomar zone allow`).
create table zone_permissions (
  name        text        not null, -- as zones.name
  reseller_id text        not null references resellers on delete cascade,
  created_at  timestamptz not null default now(),
  primary key (name, reseller_id)
);

-- The zones that other resellers had below a zone when it was made: it makes no duplicates of these names, nor of those
-- below them, also after their zones were deleted. Other names below it are none of those resellers'.
-- What an operator let them have there (zone_permissions) does not count, nor what lies below that.
create table zone_predecessors (
  zone_id     bigint not null references zones on delete cascade,
  reseller_id text   not null references resellers on delete cascade,
  name        text   not null, -- as zones.name: the root of a tree of names
  primary key (zone_id, reseller_id, name)
);
