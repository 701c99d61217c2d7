-- A foreign key checks each row by itself, which is a third of what it costs to store 10,000 recipients. Here all contacts of a
-- statement are checked at once, and deliveries not at all: `enqueue` stores them together with their partitions, and neither ever
-- belongs to another. Where deploy/citus.sql has spread the tables, which take no triggers, the foreign keys stay.

-- step
do $$
declare
  spread boolean := false;
begin
  if to_regclass('pg_dist_partition') is not null then
    execute 'select exists (select from pg_dist_partition where logicalrelid = ''contacts''::regclass)' into spread;
  end if;
  if spread then
    return;
  end if;
  lock table contacts, instances in access exclusive mode;
  alter table contacts drop constraint contacts_instance_id_fkey;

  -- The instance stays until the commit.
  create function contacts_have_instances() returns trigger language plpgsql security definer as $body$
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
  $body$;
  create trigger contacts_owned after insert on contacts
    referencing new table as added for each statement execute function contacts_have_instances();

  create function contacts_follow_instance() returns trigger language plpgsql security definer as $body$
  begin
    delete from contacts where instance_id = old.id;
    return null;
  end
  $body$;
  create trigger instances_contacts_deleted after delete on instances
    for each row execute function contacts_follow_instance();
end
$$;

-- step
do $$
declare
  spread boolean := false;
begin
  if to_regclass('pg_dist_partition') is not null then
    execute 'select exists (select from pg_dist_partition where logicalrelid = ''deliveries''::regclass)' into spread;
  end if;
  if spread then
    return;
  end if;
  lock table deliveries, partitions in access exclusive mode;
  alter table deliveries drop constraint deliveries_partition_id_instance_id_fkey;

  create function deliveries_follow_partitions() returns trigger language plpgsql security definer as $body$
  begin
    -- As an array: a table without statistics would be joined by reading all deliveries.
    delete from deliveries where partition_id = any(array(select id from gone));
    return null;
  end
  $body$;
  create trigger partitions_deliveries_deleted after delete on partitions
    referencing old table as gone for each statement execute function deliveries_follow_partitions();
end
$$;

-- step
-- Functions with the rights of the tables' owner find no table of a caller's before ours, and nobody else makes triggers of them.
do $$
declare
  own record;
begin
  for own in
    select oid::regprocedure::text as name, prorettype = 'trigger'::regtype as is_trigger from pg_proc
    where pronamespace = current_schema()::regnamespace and prosecdef and pg_has_role(proowner, 'usage')
      and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
  loop
    execute format('alter function %s set search_path to %s, pg_temp', own.name, current_setting('search_path'));
    if own.is_trigger then
      execute format('revoke execute on function %s from public', own.name);
    end if;
  end loop;
end
$$;
