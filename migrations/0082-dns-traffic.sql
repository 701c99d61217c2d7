-- What the DNS servers were asked, every few seconds, for the console. Each process writes for itself; rows go after
-- a day.
create table dns_traffic (
  source  uuid        not null, -- one life of one server process
  at      timestamptz not null,
  seconds real        not null, -- that the row is about
  queries bigint      not null,
  rcodes  jsonb       not null, -- code → responses
  zones   jsonb       not null, -- name → queries, estimated from samples; the busiest alone
  primary key (source, at)
);
create index dns_traffic_at on dns_traffic (at);
