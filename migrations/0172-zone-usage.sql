-- What a zone takes: its customer's records, and the octets that the name servers need for it, signatures included
-- (estimated as services/core/dns/zone-octets.ts does). Every change of a zone writes them with the zone's row. What is held
-- is what the company and the reseller are charged with: a little more than the zone takes, so that most changes touch
-- no row but the zone's.

-- step
alter table zones
  add column records      bigint,
  add column octets       bigint,
  add column records_held bigint,
  add column octets_held  bigint;

-- step
create function count_record_octets(owner bytea, apex_octets integer, rdata_octets integer) returns bigint
language plpgsql immutable as $$
declare
  total bigint := 80 + octet_length(owner) - apex_octets + rdata_octets + rdata_octets / 8;
  place integer := 0;
begin
  loop
    place := place + 1 + get_byte(owner, place);
    exit when octet_length(owner) - place <= apex_octets;
    total := total + 56 + octet_length(owner) - place - apex_octets;
  end loop;
  return total;
end
$$;

-- A zone at a time, each in a transaction that has its row locked, as every change of it would.
create procedure count_zones() language plpgsql as $$
declare
  zone record;
  counted record;
begin
  for zone in select id from zones where octets is null order by id loop
    select octet_length(apex) as apex, octet_length(mname) + octet_length(rname) as soa
      into counted from zones where id = zone.id for update;
    if found then
      update zones set
        records = (select count(*) from records where zone_id = zone.id),
        octets = 192 + counted.apex + counted.soa + coalesce((
          select sum(count_record_octets(r.owner, counted.apex, octet_length(r.rdata)))
            from (select owner, rdata from records where zone_id = zone.id
                  union all select owner, rdata from derived_records where zone_id = zone.id) as r), 0)
       where id = zone.id;
      update zones set records_held = records, octets_held = octets where id = zone.id;
    end if;
    commit;
  end loop;
end
$$;

-- step, outside a transaction
call count_zones();

-- step
drop procedure count_zones;
drop function count_record_octets;
update zones set records = 0, octets = 0, records_held = 0, octets_held = 0 where octets is null;
alter table zones
  alter column records set default 0, alter column records set not null,
  alter column octets set default 0, alter column octets set not null,
  alter column records_held set default 0, alter column records_held set not null,
  alter column octets_held set default 0, alter column octets_held set not null;
