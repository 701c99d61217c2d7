-- MTA-STS policies (RFC 8461) as they were fetched, shared by all workers.
create table sts_policies (
  domain     text        primary key,
  policy_id  text        not null,
  mode       text        not null check (mode in ('enforce', 'testing', 'none')),
  mx         text[]      not null,
  expires_at timestamptz not null,
  checked_at timestamptz not null default now() -- when the record in the DNS was last compared
);
