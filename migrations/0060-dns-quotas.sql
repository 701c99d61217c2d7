-- What companies and resellers may take (config/quotas.json; `limits` has what differs for one of them), and what they are
-- charged with: zones, signed zones, and the records and octets that their zones hold. Feeds and catalogs are the
-- operator's and count for nobody. A row is made when it is first needed.
create table quotas (
  id           bigint generated always as identity primary key,
  reseller_id  text    not null references resellers on delete cascade,
  company_id   bigint  unique references companies on delete cascade, -- null: the reseller's own row
  limits       jsonb   not null default '{}',
  zones        bigint  not null default 0,
  signed_zones bigint  not null default 0,
  records      bigint  not null default 0,
  octets       bigint  not null default 0,
  has_reserves boolean not null default false -- zones may hold more than they take
);
create unique index quotas_reseller on quotas (reseller_id) where company_id is null;
