-- As before, and run by Citus as well, which has no tables without columns.
create or replace function drop_events_month(first_day date) returns boolean language plpgsql security definer as $$
declare
  month text := 'events_' || to_char(first_day, 'YYYY_MM');
  empty boolean;
begin
  lock table only events in access exclusive mode;
  execute format('lock table %I in access exclusive mode', month);
  execute format('select not exists (select 1 from %I)', month) into empty;
  if empty then
    execute format('drop table %I', month);
  end if;
  return empty;
end
$$;
-- A constant path, as Citus passes on no other.
do $$
begin
  execute format('alter function drop_events_month(date) set search_path to %s', current_setting('search_path'));
end
$$;
