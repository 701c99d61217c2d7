-- The queue by instance, as 0150 did it for contacts. What the release before still queues meanwhile gets its instance from
-- triggers.

-- step
-- A message's instance is its batch's. It is noted for the rest of the transaction, see below.
create function fill_message_instance() returns trigger language plpgsql security definer as $$
declare
  noted text := coalesce(current_setting('palomar.instance', true), '');
begin
  select instance_id into new.instance_id from batches where eeid = new.eeid;
  if tg_op = 'INSERT' then
    perform set_config('palomar.instance',
      case when noted in ('', new.instance_id::text) then new.instance_id::text else 'several' end, true);
  end if;
  return new;
end
$$;
alter function fill_message_instance() set search_path from current;

-- A delivery's is its contact's. A copy to somebody who is no contact has its partition's; but the release before stores
-- deliveries ahead of their partitions, in one statement. Then it is the one that the transaction's messages have; where
-- they are of several, the transaction fails, and that release queues its sends again, each by itself.
create function fill_delivery_instance() returns trigger language plpgsql security definer as $$
begin
  select instance_id into new.instance_id from contacts where id = new.contact_id;
  if new.instance_id is null then
    select instance_id into new.instance_id from partitions where id = new.partition_id;
  end if;
  if new.instance_id is null and tg_op = 'INSERT' then
    new.instance_id := nullif(current_setting('palomar.instance', true), '')::bigint;
  end if;
  return new;
end
$$;
alter function fill_delivery_instance() set search_path from current;

-- step
alter table messages add column instance_id bigint;
create trigger messages_instance before insert or update on messages
  for each row when (new.instance_id is null) execute function fill_message_instance();

-- step
alter table message_attachments add column instance_id bigint;
create trigger message_attachments_instance before insert or update on message_attachments
  for each row when (new.instance_id is null) execute function fill_instance('message_id', 'messages', 'id');

-- step
alter table partitions add column instance_id bigint;
create trigger partitions_instance before insert or update on partitions
  for each row when (new.instance_id is null) execute function fill_instance('eeid', 'batches', 'eeid');

-- step
alter table deliveries add column instance_id bigint;
create trigger deliveries_instance before insert or update on deliveries
  for each row when (new.instance_id is null) execute function fill_delivery_instance();

-- step
alter table archived_messages add column instance_id bigint;
create trigger archived_messages_instance before insert or update on archived_messages
  for each row when (new.instance_id is null) execute function fill_instance('delivery_id', 'deliveries', 'id');

-- step
alter table tracked_links add column instance_id bigint;
create trigger tracked_links_instance before insert or update on tracked_links
  for each row when (new.instance_id is null) execute function fill_instance('message_id', 'messages', 'id');

-- step, outside a transaction
call fill_instances('messages', 'eeid', 'batches', 'eeid');

-- step, outside a transaction
call fill_instances('message_attachments', 'message_id', 'messages', 'id');

-- step, outside a transaction
call fill_instances('partitions', 'eeid', 'batches', 'eeid');

-- step, outside a transaction
call fill_instances('deliveries', 'partition_id', 'partitions', 'id');

-- step, outside a transaction
call fill_instances('archived_messages', 'delivery_id', 'deliveries', 'id');

-- step, outside a transaction
call fill_instances('tracked_links', 'message_id', 'messages', 'id');

-- step
alter table messages add constraint messages_instance check (instance_id is not null) not valid;

-- step
alter table messages validate constraint messages_instance;

-- step
alter table messages alter column instance_id set not null;
alter table messages drop constraint messages_instance;

-- step
alter table message_attachments add constraint message_attachments_instance check (instance_id is not null) not valid;

-- step
alter table message_attachments validate constraint message_attachments_instance;

-- step
alter table message_attachments alter column instance_id set not null;
alter table message_attachments drop constraint message_attachments_instance;

-- step
alter table partitions add constraint partitions_instance check (instance_id is not null) not valid;

-- step
alter table partitions validate constraint partitions_instance;

-- step
alter table partitions alter column instance_id set not null;
alter table partitions drop constraint partitions_instance;

-- step
alter table deliveries add constraint deliveries_instance check (instance_id is not null) not valid;

-- step
alter table deliveries validate constraint deliveries_instance;

-- step
alter table deliveries alter column instance_id set not null;
alter table deliveries drop constraint deliveries_instance;

-- step
alter table archived_messages add constraint archived_messages_instance check (instance_id is not null) not valid;

-- step
alter table archived_messages validate constraint archived_messages_instance;

-- step
alter table archived_messages alter column instance_id set not null;
alter table archived_messages drop constraint archived_messages_instance;

-- step
alter table tracked_links add constraint tracked_links_instance check (instance_id is not null) not valid;

-- step
alter table tracked_links validate constraint tracked_links_instance;

-- step
alter table tracked_links alter column instance_id set not null;
alter table tracked_links drop constraint tracked_links_instance;

-- step, outside a transaction
create unique index concurrently if not exists batches_key on batches (eeid, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists messages_key on messages (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists message_attachments_key on message_attachments (message_id, position, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists partitions_key on partitions (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists deliveries_key on deliveries (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists archived_messages_key on archived_messages (delivery_id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists archived_messages_delivery on archived_messages (delivery_id);

-- step, outside a transaction
create unique index concurrently if not exists tracked_links_key on tracked_links (message_id, link, instance_id);

-- step
alter table messages add constraint messages_eeid_instance
  foreign key (eeid, instance_id) references batches (eeid, instance_id) on delete cascade not valid;

-- step
alter table messages validate constraint messages_eeid_instance;

-- step
alter table message_attachments add constraint message_attachments_message_id_instance
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade not valid;

-- step
alter table message_attachments validate constraint message_attachments_message_id_instance;

-- step
alter table partitions add constraint partitions_eeid_instance
  foreign key (eeid, instance_id) references batches (eeid, instance_id) on delete cascade not valid;

-- step
alter table partitions validate constraint partitions_eeid_instance;

-- step
alter table partitions add constraint partitions_message_id_instance
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade not valid;

-- step
alter table partitions validate constraint partitions_message_id_instance;

-- step
alter table deliveries add constraint deliveries_partition_id_instance
  foreign key (partition_id, instance_id) references partitions (id, instance_id) on delete cascade not valid;

-- step
alter table deliveries validate constraint deliveries_partition_id_instance;

-- step
alter table archived_messages add constraint archived_messages_delivery_id_instance
  foreign key (delivery_id, instance_id) references deliveries (id, instance_id) on delete cascade not valid;

-- step
alter table archived_messages validate constraint archived_messages_delivery_id_instance;

-- step
alter table tracked_links add constraint tracked_links_message_id_instance
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade not valid;

-- step
alter table tracked_links validate constraint tracked_links_message_id_instance;

-- step
alter table messages drop constraint messages_eeid_fkey;
alter table messages rename constraint messages_eeid_instance to messages_eeid_fkey;

-- step
alter table message_attachments drop constraint message_attachments_message_id_fkey;
alter table message_attachments rename constraint message_attachments_message_id_instance to message_attachments_message_id_fkey;

-- step
alter table partitions drop constraint partitions_eeid_fkey;
alter table partitions rename constraint partitions_eeid_instance to partitions_eeid_fkey;

-- step
alter table partitions drop constraint partitions_message_id_fkey;
alter table partitions rename constraint partitions_message_id_instance to partitions_message_id_fkey;

-- step
alter table deliveries drop constraint deliveries_partition_id_fkey;
alter table deliveries rename constraint deliveries_partition_id_instance to deliveries_partition_id_fkey;

-- step
alter table archived_messages drop constraint archived_messages_delivery_id_fkey;
alter table archived_messages rename constraint archived_messages_delivery_id_instance to archived_messages_delivery_id_fkey;

-- step
alter table tracked_links drop constraint tracked_links_message_id_fkey;
alter table tracked_links rename constraint tracked_links_message_id_instance to tracked_links_message_id_fkey;

-- step
alter table batches drop constraint batches_pkey, add constraint batches_pkey primary key using index batches_key;

-- step
alter table messages drop constraint messages_pkey, add constraint messages_pkey primary key using index messages_key;

-- step
alter table message_attachments drop constraint message_attachments_pkey, add constraint message_attachments_pkey primary key using index message_attachments_key;

-- step
alter table partitions drop constraint partitions_pkey, add constraint partitions_pkey primary key using index partitions_key;

-- step
alter table deliveries drop constraint deliveries_pkey, add constraint deliveries_pkey primary key using index deliveries_key;

-- step
alter table archived_messages drop constraint archived_messages_pkey, add constraint archived_messages_pkey primary key using index archived_messages_key;

-- step
alter table tracked_links drop constraint tracked_links_pkey, add constraint tracked_links_pkey primary key using index tracked_links_key;

-- step
drop procedure fill_instances(regclass, text, regclass, text);
