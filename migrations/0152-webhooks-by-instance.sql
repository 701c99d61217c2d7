-- Webhooks by instance (see 0150). Whoever stores events now queues what is to be told of them in the same statement
-- (services/store/mail/events.ts), as Citus has no triggers on distributed tables. The trigger serves the release before alone.

-- step
-- Who has a webhook, and nothing else of it, for whoever stores events.
create view webhook_instances as select distinct instance_id from webhooks;

create or replace function queue_webhook_events() returns trigger language plpgsql security definer as $$
begin
  if coalesce(current_setting('palomar.queues_webhooks', true), '') <> 'on' and exists (select from webhooks) then
    insert into webhook_events (instance_id, at, event_id)
    select instance_id, at, id from added where instance_id in (select instance_id from webhooks) order by at, id;
  end if;
  return null;
end $$;
alter function queue_webhook_events() set search_path from current;

-- step, outside a transaction
create unique index concurrently if not exists webhook_batches_key on webhook_batches (id, instance_id);

-- step
alter table webhook_batches drop constraint webhook_batches_pkey,
  add constraint webhook_batches_pkey primary key using index webhook_batches_key;
