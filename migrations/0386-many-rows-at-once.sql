-- A foreign key looks after each row by itself, which is a third of what it costs to store 10,000 recipients. Here it is
-- looked once for all rows of a statement. deploy/citus.sql, for tables without triggers, has the foreign keys.

alter table contacts drop constraint contacts_instance_id_fkey;

-- The instance stays until the commit.
create function contacts_have_instances() returns trigger language plpgsql security definer set search_path from current as $$
declare
  found_instances bigint;
begin
  perform from instances where id in (select instance_id from added) for key share;
  get diagnostics found_instances = row_count;
  if found_instances < (select count(distinct instance_id) from added) then
    raise foreign_key_violation using message = 'contacts of an instance that does not exist';
  end if;
  return null;
end
$$;
create trigger contacts_owned after insert on contacts
  referencing new table as added for each statement execute function contacts_have_instances();

create function contacts_follow_instance() returns trigger language plpgsql security definer set search_path from current as $$
begin
  delete from contacts where instance_id = old.id;
  return null;
end
$$;
create trigger instances_contacts_deleted after delete on instances
  for each row execute function contacts_follow_instance();

-- A delivery is stored together with its partition.
alter table deliveries drop constraint deliveries_partition_id_instance_id_fkey;

create function deliveries_follow_partitions() returns trigger language plpgsql security definer set search_path from current as $$
begin
  -- As an array: a table without statistics would be joined by reading all deliveries.
  delete from deliveries where partition_id = any(array(select id from gone));
  return null;
end
$$;
create trigger partitions_deliveries_deleted after delete on partitions
  referencing old table as gone for each statement execute function deliveries_follow_partitions();
