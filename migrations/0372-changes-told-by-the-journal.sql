-- Readers of zones look for what changed since their last snapshot here too, and not in zones.changed_xid alone: a change
-- that has a row in the journal leaves that as it is, so that no index of zones is written anew for it. The latest row of
-- a zone's journal stays, however old. Rows of before have none: their zones have it.
alter table zone_journal add column changed_xid xid8;
alter table zone_journal alter column changed_xid set default pg_current_xact_id();
create index zone_journal_changed on zone_journal (changed_xid) where changed_xid is not null;

-- Room on each page for the next version of a row.
alter table zones set (fillfactor = 85);
