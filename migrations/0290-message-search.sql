-- Searches by way or result go through these alone, without a look at the attempts.
drop index delivery_attempts_path;
create index delivery_attempts_path on delivery_attempts (instance_id, path_id, at, delivery_id);
drop index delivery_attempts_result;
create index delivery_attempts_result on delivery_attempts (instance_id, result_id, at, delivery_id);

-- What is told of outcomes is written for every one of them. Rows are found by their place, and before they have one by the
-- serial in `webhook_events_unplaced`; and without a foreign key, whose check would lock the feed's row for every event.
alter table webhook_events drop constraint webhook_events_pkey, drop constraint webhook_events_instance_id_fkey;
create function webhook_events_follow_instance() returns trigger language plpgsql security definer
set search_path from current as $$
begin
  delete from webhook_events where instance_id = old.id;
  return null;
end
$$;
create trigger instances_webhook_events_deleted after delete on instances
  for each row execute function webhook_events_follow_instance();
