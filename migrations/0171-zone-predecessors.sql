-- The zones that other resellers had below a zone when it was made: it makes no duplicates of these names, nor of those
-- below them, also after their zones were deleted. Other names below it are none of those resellers'.
-- What an operator let them have there (zone_permissions) does not count, nor what lies below that.

create table zone_predecessors (
  zone_id     bigint not null references zones on delete cascade,
  reseller_id text   not null references resellers on delete cascade,
  name        text   not null, -- as in zones: the root of a tree of names
  primary key (zone_id, reseller_id, name)
);

-- The sort key of a name begins with those of all names above it, and ends with an octet 0: those below are what lies
-- between it and the same with 1 as its last octet. An earlier zone has a lower id.
insert into zone_predecessors (zone_id, reseller_id, name)
select above.id, below.reseller_id, below.name
  from zones above
  join zones below on below.name_key > above.name_key
   and below.name_key < set_byte(above.name_key, octet_length(above.name_key) - 1, 1)
 where below.kind = 'primary' and below.reseller_id is distinct from above.reseller_id and below.id < above.id
   and not exists (
     select 1 from zone_permissions allowed
      where allowed.reseller_id = below.reseller_id and right(allowed.name, octet_length(above.name) + 1) = '.' || above.name
        and (allowed.name = below.name or right(below.name, octet_length(allowed.name) + 1) = '.' || allowed.name)
   );
