-- Before there are statistics the index of an instance's contacts by id looks as good as that of their keys, and whoever
-- looked a key up by a plan that is kept went through all contacts. A partial one serves only who asks by the id.

-- step, outside a transaction
create index concurrently if not exists contacts_by_id on contacts (instance_id, id) where id is not null;

-- step
drop index contacts_listing;
