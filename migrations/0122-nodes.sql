-- What every running stack says of itself, every few seconds: one row a node. Who has not spoken for a day is forgotten.
create table nodes (
  node     text        primary key, -- PALOMAR_NODE, the host name unless set
  services jsonb       not null,    -- [{"name","ready"}]
  version  text        not null,
  lag_ms   bigint,                  -- since its zones were known to be the database's; null where no dns-server runs
  seen     timestamptz not null default now()
);
