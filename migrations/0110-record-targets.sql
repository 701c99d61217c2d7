-- Finds the NS, MX and SRV records that point to a name without reading the zone, for the warnings of whoever makes the
-- name a CNAME or takes its last address. Building the index reads records once and keeps changes waiting meanwhile:
-- about a second for each million of them.

-- The target in the text form of encode(…, 'escape'), in lower case (RFC 4343): NS (2), MX (15), SRV (33).
create function record_target(type integer, rdata bytea) returns text language sql immutable parallel safe as $$
  select lower(encode(substring(rdata from case type when 15 then 3 when 33 then 7 else 1 end), 'escape') collate "C")
$$;

create index records_target on records (zone_id, record_target(type, rdata)) where type in (2, 15, 33);
