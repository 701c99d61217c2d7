-- Events of copies have no contact: what is erased of an address, or told of it, is found by its local part, as deliveries are
-- (deliveries_copies). Without it all events of the instance were read, while everything that sends for it waited.
create index events_copies on events (instance_id, split_part(email, '@', 1)) where contact_id is null;
