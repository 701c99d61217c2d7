-- What all instances have done in the last hours is asked for every few seconds: the key begins with the instance, and minutes
-- are kept for years. Counts are no part of it, so that counting on changes no index.
create index event_counts_hours on event_counts (bucket) where grain = 'hour';
