-- Bounces alone, a few in a hundred events (4 hard, 5 soft: services/store/event-kinds.ts): statistics over them need not
-- look at all events. Other events do not touch it. Writers of events wait while it is made: one look at the table,
-- about ten seconds for ten million events.
create index events_bounces on events (instance_id, at) where kind in (4, 5);
