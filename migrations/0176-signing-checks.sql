-- When the chain and the signatures of a signed zone were last compared with what they should be; null: never yet.
-- Upkeep compares them, those first that never were.
-- No table is rewritten: the column is null.

alter table zone_signing add column checked_at timestamptz;
create index zone_signing_checks on zone_signing (checked_at nulls first, zone_id);
