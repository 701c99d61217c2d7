-- What the names of a reseller's zones are made of, by the way they begin: a search by a part of the name goes over those
-- beginnings alone that may have it, in order, and not over all zones. A bucket may say more than its zones have, as one
-- that is deleted takes nothing from it; never less.
-- step

create table zone_name_buckets (
  reseller_id text  not null references resellers on delete cascade,
  bucket      bytea not null, -- what the sort keys of its zones' names begin with (zone_name_bucket)
  parts       bit varying not null, -- zone_name_parts of all of them
  primary key (reseller_id, bucket)
);

-- The top-level domain, a label of up to three octets below it where another follows (co.uk), and four octets of the next
-- label, or with the zero behind it one of up to three: so no bucket's names lie between those of another.
create function zone_name_bucket(name_key bytea) returns bytea language plpgsql immutable strict parallel safe as $$
declare
  zero constant bytea := '\000';
  first integer := position(zero in name_key);
  second integer := position(zero in substring(name_key from first + 1));
  label bytea;
begin
  if second between 1 and 4 and octet_length(name_key) > first + second then first := first + second; end if;
  label := substring(name_key from first + 1 for 4);
  if position(zero in label) > 0 then label := substring(label for position(zero in label)); end if;
  return substring(name_key for first) || label;
end $$;

-- The single characters and the pairs of characters of a text, a bit for each: letters, digits, "-", "_", ".", "/", and
-- one for all others (services/store/dns/zone-name-parts.ts).
create function zone_name_parts(name text) returns bit varying language plpgsql immutable strict parallel safe as $$
declare
  parts bit varying := repeat('0', 41 + 41 * 41)::bit(1722);
  before integer;
  here integer;
begin
  for place in 1..length(name) loop
    here := strpos('abcdefghijklmnopqrstuvwxyz0123456789-_./', substr(name, place, 1)) - 1;
    if here < 0 then here := 40; end if;
    parts := set_bit(parts, here, 1);
    if before is not null then parts := set_bit(parts, 41 + 41 * before + here, 1); end if;
    before := here;
  end loop;
  return parts;
end $$;

create function note_zone_name() returns trigger language plpgsql security definer set search_path from current as $$
declare
  its_bucket bytea := zone_name_bucket(new.name_key);
  its_parts bit varying := zone_name_parts(new.name);
begin
  perform from zone_name_buckets b
    where b.reseller_id = new.reseller_id and b.bucket = its_bucket and b.parts & its_parts = its_parts for key share;
  if not found then
    insert into zone_name_buckets as b (reseller_id, bucket, parts) values (new.reseller_id, its_bucket, its_parts)
    on conflict (reseller_id, bucket) do update set parts = b.parts | excluded.parts;
  end if;
  return null;
end $$;

-- At the end of the transaction, so that nobody waits for one that takes long over a zone's records.
create constraint trigger zones_named after insert or update of reseller_id, name_key on zones
  deferrable initially deferred for each row when (new.kind = 'primary') execute function note_zone_name();

-- step

-- Zones that are made meanwhile are noted by the trigger.
insert into zone_name_buckets as b (reseller_id, bucket, parts)
select reseller_id, zone_name_bucket(name_key), bit_or(zone_name_parts(name)) from zones where kind = 'primary'
 group by 1, 2 order by 1, 2
on conflict (reseller_id, bucket) do update set parts = b.parts | excluded.parts;
