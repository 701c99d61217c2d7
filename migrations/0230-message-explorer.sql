-- What messages are found by (services/store/mail/explorer). Columns that outcomes change are in none of these indexes, so
-- that deliveries stay updated in place.

alter table messages
  add column subject    text, -- without tags' values: of a template as it is
  add column sender     text, -- the From address: exact local part @ lower-case A-labels
  add column message_id text, -- of a finished message, with its angle brackets
  -- Numbers that stand for the words of the subject, the sender, its domain and the Message-ID, each together with the
  -- instance (services/core/mail/message-terms.ts). Messages of before this migration have none.
  add column terms      bigint[] not null default '{}';
create index messages_terms on messages using gin (terms);
create index messages_accepted on messages (instance_id, created_at);

create index deliveries_newest on deliveries (instance_id, id);
create index deliveries_copies on deliveries (instance_id, split_part(recipient, '@', 1), id) where contact_id is null;
create index partitions_destination on partitions (instance_id, destination, id);
create index partitions_unfinished on partitions (instance_id, id) where state <> 'finished';
-- Bounces alone, a few in a hundred.
create index events_bounce_reason on events (instance_id, (detail ->> 'reason'), at) where kind in (4, 5);
