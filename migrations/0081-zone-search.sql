-- Zones by any part of their name, for the console's search. Built while the table is read but not written: with a
-- million zones for some seconds.
create extension if not exists pg_trgm;
create index zones_name_parts on zones using gin (name gin_trgm_ops);
