-- The W3C trace context of the call that a message was accepted by; null where no traces are made.
alter table messages add column trace_parent text;
