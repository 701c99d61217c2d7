-- Names below another reseller's zone that an operator lets a reseller have as zones of its own (`palomar zone allow`).

create table zone_permissions (
  name        text        not null, -- as zones.name
  reseller_id text        not null references resellers on delete cascade,
  created_at  timestamptz not null default now(),
  primary key (name, reseller_id)
);
