-- What a change costs does not depend on how many zones there are: a record that is deleted is looked for among the
-- members of catalogs, and so is a zone.
create index catalog_members_record on catalog_members (record_id);
create index catalog_members_zone on catalog_members (zone_id);

-- Name servers read all records in the order in which they take them in, those of an RRset by age: an index in just that
-- order gives it without a sort.
create index records_order on records (zone_id, owner_key, type, id);
drop index records_place;
alter index records_order rename to records_place;
