-- Events of sender domains: that a source passes, or fails, DMARC for the first time, as reports that count say.

alter table webhook_events
  add column domain text, -- the sender domain that it is of; null: it is of a contact or a delivery
  drop constraint webhook_events_check,
  add check (num_nonnulls(event_id, delivery_id, domain) = 1);

-- Whose events are told, and whether what becomes of deliveries (12 to 14), and what sources of sender domains do (15 and 16), is as well.
create or replace view webhook_instances as
  select instance_id, streamed_until > now() or exists (
      select from webhooks w where w.instance_id = f.instance_id and w.kinds && array[12, 13, 14]::smallint[]
    ) as deliveries,
    streamed_until > now() or exists (
      select from webhooks w where w.instance_id = f.instance_id and w.kinds && array[15, 16]::smallint[]
    ) as sources
  from event_feeds f
  where streamed_until > now() or exists (select from webhooks w where w.instance_id = f.instance_id);
