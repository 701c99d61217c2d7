-- How long a message was not to be sent because its batch was paused: that time is no part of its age, and nothing is
-- given up for it. The default is a constant: no row is rewritten.
alter table messages add column held_for interval not null default '0';
