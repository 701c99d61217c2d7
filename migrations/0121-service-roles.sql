-- What a service's own role may not do by itself (see config/database-roles.json): make and drop the months of the event
-- table, which takes its owner, and write what the triggers of other tables write. Each runs as the owner, with the
-- search path that it was made under.

create function make_events_month(first_day date) returns void language plpgsql security definer as $$
declare
  month text := 'events_' || to_char(first_day, 'YYYY_MM');
begin
  execute format('create table %I (like events including defaults including constraints)', month);
  -- Attaching a finished table does not block readers or writers of the others, unlike `create … partition of`.
  execute format(
    'alter table events attach partition %I for values from (%L) to (%L)', month,
    to_char(first_day, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(first_day + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
end
$$;
alter function make_events_month(date) set search_path from current;

-- Drops a month that holds nothing any more; false when it does. The caller sets a lock_timeout.
create function drop_events_month(first_day date) returns boolean language plpgsql security definer as $$
declare
  month text := 'events_' || to_char(first_day, 'YYYY_MM');
  empty boolean;
begin
  lock table only events in access exclusive mode;
  execute format('lock table %I in access exclusive mode', month);
  execute format('select not exists (select from %I)', month) into empty;
  if empty then
    execute format('drop table %I', month);
  end if;
  return empty;
end
$$;
alter function drop_events_month(date) set search_path from current;

alter function queue_webhook_events() security definer;
alter function queue_webhook_events() set search_path from current;
alter function count_transfer_access_change() security definer;
alter function count_transfer_access_change() set search_path from current;
