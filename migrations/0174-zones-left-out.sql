-- Zones that a server has no memory for, as it says itself every half minute. Without a served version all of the zone
-- is SERVFAIL there; with one the zone is answered as it was.
create table zones_left_out (
  node           text        not null,
  zone_id        bigint      not null,
  served_version bigint,
  since          timestamptz not null,
  -- What the zone had taken when there was no room for more: it needs more than that.
  taken_octets   bigint      not null,
  seen           timestamptz not null default now(),
  primary key (node, zone_id)
);

create index zones_left_out_zone on zones_left_out (zone_id);
