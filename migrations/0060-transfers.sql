-- Zones of more than one kind: those that customers edit, response policy zones that the operator keeps, and catalogs
-- (RFC 9432) that list a reseller's zones. All share records, journal, publication and transfers. Only the first kind
-- has a company, so that whatever joins companies never sees the others.

alter table zones add column kind text not null default 'primary' check (kind in ('primary', 'feed', 'catalog'));
alter table zones alter column reseller_id drop not null, alter column company_id drop not null;
alter table zones add constraint zones_owner check (
  case kind
    when 'primary' then reseller_id is not null and company_id is not null
    when 'catalog' then reseller_id is not null and company_id is null
    else reseller_id is null and company_id is null
  end);
create index zones_catalogs on zones (reseller_id) where kind = 'catalog';

-- What makes a zone a feed; its serial is the zone's.

create table rpz_feeds (
  zone_id bigint primary key references zones on delete cascade,
  rules   bigint not null default 0 -- distinct triggers
);

create table rpz_activations (
  zone_id     bigint not null references rpz_feeds on delete cascade,
  reseller_id text   not null references resellers on delete cascade,
  primary key (zone_id, reseller_id)
);
create index rpz_activations_reseller on rpz_activations (reseller_id);

create table rpz_expiries (
  record_id  bigint      primary key references records on delete cascade,
  zone_id    bigint      not null references rpz_feeds on delete cascade,
  expires_at timestamptz not null
);
create index rpz_expiries_due on rpz_expiries (expires_at);

-- Names that no rule may cover, nor names below them.
create table rpz_safe_names (
  name     text  primary key, -- as zones.name
  name_key bytea not null unique
);

-- The zones that a catalog lists, each with the record that does so.
create table catalog_members (
  catalog_id bigint not null references zones on delete cascade,
  zone_id    bigint not null, -- of a zone that may be gone already
  record_id  bigint not null references records on delete cascade,
  primary key (catalog_id, zone_id)
);

-- Counts the changes of what decides who may transfer what, so that servers can tell at the cost of one row whether
-- to read it again.
create table transfer_access_version (
  singleton boolean primary key default true check (singleton),
  version   bigint  not null
);
insert into transfer_access_version (version) values (1);

create function count_transfer_access_change() returns trigger language plpgsql as $$
begin
  update transfer_access_version set version = version + 1;
  return null;
end
$$;

create trigger acls_changed after insert or update or delete on acls
  for each statement execute function count_transfer_access_change();
create trigger tsig_keys_changed after insert or update or delete on tsig_keys
  for each statement execute function count_transfer_access_change();
create trigger rpz_feeds_changed after insert or delete on rpz_feeds
  for each statement execute function count_transfer_access_change();
create trigger rpz_activations_changed after insert or update or delete on rpz_activations
  for each statement execute function count_transfer_access_change();
create trigger resellers_licence_changed after update of rpz_licence on resellers
  for each statement execute function count_transfer_access_change();
create trigger catalogs_changed after insert on zones
  for each row when (new.kind = 'catalog') execute function count_transfer_access_change();
create trigger catalogs_removed after delete on zones
  for each row when (old.kind = 'catalog') execute function count_transfer_access_change();
