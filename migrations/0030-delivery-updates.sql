-- Outcomes are updated in place (HOT): no index holds a column that they change, and pages keep room for them. The
-- recipients of a partition are few, so the queued ones among them need no index of their own.
drop index deliveries_queued;
alter table deliveries set (fillfactor = 80);

-- Of finished messages: whether List-Unsubscribe fields are added for each recipient. A template says so itself.
alter table messages add column unsubscribe boolean not null default false;
