-- What is known of a signed zone's parent, whether its DS there follows CDS by itself where the parent is hosted here, and
-- how long caches may have what changes took out of the zone.
-- No table is rewritten: the columns are null, or have a constant default.

alter table zone_signing
  add column ds_automatic         boolean not null default true, -- the DS in a parent of the same reseller follows CDS
  add column ds_wished_at         timestamptz,                   -- when ds_wanted was changed last; null: never
  add column parent_authenticated boolean,                       -- whether parent_ds was validated; null: nobody said
  add column parent_ds_ttl        bigint,                        -- TTL of the last DS that was seen there
  add column cached_until         timestamptz;                   -- until when caches may have data of larger TTLs than now
