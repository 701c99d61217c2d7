-- What strangers leave at the MX listener has an end: a sample of what was not understood, and bounces before complaints.
-- The column has no default: nothing is rewritten. Indexes are made while messages come in.

-- step
-- Why nothing followed from a message: about nothing of ours, or not understood. Null: it was understood, or waits.
alter table inbound_messages add column unexplained text;

-- step, outside a transaction
create index concurrently if not exists inbound_messages_unexplained on inbound_messages (id) where unexplained is not null;

-- step, outside a transaction
create index concurrently if not exists inbound_messages_waiting_returns on inbound_messages (id)
  where state = 'waiting' and delivery_id is not null;

-- step, outside a transaction
create index concurrently if not exists inbound_messages_waiting_feedback on inbound_messages (id)
  where state = 'waiting' and delivery_id is null;
