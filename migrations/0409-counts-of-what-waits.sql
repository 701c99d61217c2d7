-- What waits for a window of its instance's limits is counted in it under these: '<grain> <key>' of each row of sending_counts. When it
-- is released or taken back, its place is free again. Null: it does not wait, or has waited since before this was kept.
alter table partitions add column counted_as text[];
