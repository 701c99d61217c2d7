-- Until when caches may have data of larger TTLs than the zone has now, of zones that are not signed as well: the first keys
-- of a zone wait for what it had before. zone_signing.cached_until is what the release before knew of signed zones.
-- No table is rewritten: the column is null.

alter table zones add column cached_until timestamptz;
