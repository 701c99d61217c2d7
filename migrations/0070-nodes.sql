-- What the servers say of themselves.

-- Every few seconds: one row a node. Who has not spoken for a day is forgotten.
create table nodes (
  node     text        primary key, -- PALOMAR_NODE, the host name unless set
  services jsonb       not null,    -- [{"name","ready"}]
  version  text        not null,
  lag_ms   bigint,                  -- since its zones were known to be the database's; null where no dns-server runs
  seen     timestamptz not null default now()
);

-- Zones that a server has no memory for, as it says every half minute. Without a served version all of the zone is
-- SERVFAIL there; with one the zone is answered as it was.
create table zones_left_out (
  node           text        not null,
  zone_id        bigint      not null,
  served_version bigint,
  since          timestamptz not null,
  taken_octets   bigint      not null, -- what the zone had taken when there was no room for more: it needs more than that
  seen           timestamptz not null default now(),
  primary key (node, zone_id)
);
create index zones_left_out_zone on zones_left_out (zone_id);

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
