-- The serial that a zone had at its end. A secondary may still have it when another zone is made under the name, and no difference
-- of that one leads on from there.
alter table zone_deletions add column serial bigint;
create index zone_deletions_apex on zone_deletions (apex);
