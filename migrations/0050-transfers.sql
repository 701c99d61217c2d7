-- Who may transfer what, and whose resolvers may ask for it.

create table resolver_blocks (
  reseller_id text not null references resellers on delete cascade,
  block       cidr not null,
  description text not null default '',
  primary key (reseller_id, block)
);

create table tsig_keys (
  id            bigint generated always as identity primary key,
  name          text  not null unique, -- a domain name, lower case, no final dot: unique in the deployment
  algorithm     text  not null,
  secret_sealed text  not null
);

create table acls (
  id          bigint generated always as identity primary key,
  reseller_id text   not null references resellers on delete cascade,
  name        text   not null,
  blocks      cidr[] not null default '{}',
  tsig_key_id bigint references tsig_keys,
  zones       text[], -- null: all zones of the reseller
  notify      text[] not null default '{}', -- host:port
  unique (reseller_id, name)
);

-- Counts the changes of what decides who may transfer what, so that servers can tell at the cost of one row whether
-- to read it again.
create table transfer_access_version (
  singleton boolean primary key default true check (singleton),
  version   bigint  not null
);
insert into transfer_access_version (version) values (1);

-- Runs as its owner: who changes an ACL need have no right on the count.
create function count_transfer_access_change() returns trigger language plpgsql security definer
set search_path from current as $$
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
