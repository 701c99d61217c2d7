-- DNSSEC. What signing makes of a zone lies apart from what its customer put there, and is published and transferred
-- with it.

create table zone_signing (
  zone_id              bigint primary key references zones on delete cascade,
  denial               text        not null check (denial in ('nsec', 'nsec3')),
  ds_wanted            boolean     not null default true, -- false: CDS and CDNSKEY ask the parent to remove its DS
  ds_wished_at         timestamptz,                       -- when ds_wanted was changed last; null: never
  ds_automatic         boolean     not null default true, -- the DS in a parent of the same reseller follows CDS
  ds_gone_at           timestamptz,                       -- since when the parent has no DS any more
  parent_ds            bytea[],                           -- RDATA of its DS records as last seen; null: nobody saw any answer
  parent_authenticated boolean,                           -- whether parent_ds was validated; null: nobody said
  parent_ds_ttl        bigint,                            -- TTL of the last DS that was seen there
  parent_checked_at    timestamptz,
  due_at               timestamptz not null,              -- when somebody has to look at the zone next
  checked_at           timestamptz                        -- when chain and signatures were last compared with what they should be
);
create index zone_signing_due on zone_signing (due_at);
create index zone_signing_checks on zone_signing (checked_at nulls first, zone_id);

create table zone_keys (
  zone_id            bigint      not null references zone_signing on delete cascade,
  key_tag            integer     not null check (key_tag between 0 and 65535),
  role               text        not null check (role in ('ksk', 'zsk', 'csk')),
  algorithm          smallint    not null,
  public_key         bytea       not null, -- as a DNSKEY holds it
  private_key_sealed text        not null, -- PKCS #8 DER, sealed
  created_at         timestamptz not null,
  state              text        not null check (state in ('generated', 'published', 'ready', 'active', 'retired', 'removed')),
  since              timestamptz not null,
  due_at             timestamptz,          -- when the state ends by time
  is_published       boolean     not null,
  signs_key_set      boolean     not null,
  signs_zone         boolean     not null,
  has_ds             boolean     not null,
  primary key (zone_id, key_tag)
);

-- DNSKEY, CDS, CDNSKEY, RRSIG, NSEC, NSEC3 and NSEC3PARAM of signed zones, in the form of `records`.
create table derived_records (
  id        bigint generated always as identity primary key,
  zone_id   bigint  not null references zones on delete cascade,
  owner     bytea   not null,
  owner_key bytea   not null,
  type      integer not null check (type between 1 and 65535),
  ttl       bigint  not null check (ttl between 0 and 2147483647),
  rdata     bytea   not null,
  expires   bigint  not null -- of an RRSIG, seconds since 1970; else 0
);
create index derived_records_place on derived_records (zone_id, owner_key, type);
-- The chain of denial: NSEC (47) or NSEC3 (50).
create index derived_records_chain on derived_records (zone_id, owner_key) where type in (47, 50);
create index derived_records_expiry on derived_records (zone_id, expires) where type = 46;
