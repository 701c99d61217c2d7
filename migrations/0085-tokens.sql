-- Tokens: what programs of resellers and companies call with instead of their keys. The policy is stored as it is shown
-- (core/dns/access-policy.ts), the token as its HMAC (core/api-key.ts).
create table dns_tokens (
  id             bigint generated always as identity primary key,
  reseller_id    text        not null references resellers on delete cascade,
  company_id     bigint      references companies on delete cascade, -- null: the reseller's own
  name           text        not null,
  policy         jsonb       not null,
  made_by        text        not null, -- as the history names callers
  -- Made through the console: it goes with the account of whoever made it.
  made_by_login  text        references users (login) on update cascade on delete cascade,
  token_hash     bytea       unique, -- null: only its TSIG key is good for something
  previous_hash  bytea       unique, -- accepted until its grace ends
  previous_until timestamptz,
  created_at     timestamptz not null,
  expires_at     timestamptz,
  last_used_at   timestamptz, -- to the minute
  last_used_from text,
  unique nulls not distinct (reseller_id, company_id, name)
);
create index dns_tokens_company on dns_tokens (company_id);
create index dns_tokens_maker on dns_tokens (made_by_login);

-- The key of a token, which is held to the same policy.
alter table tsig_keys add column token_id bigint unique references dns_tokens on delete cascade;

-- What programs that speak PowerDNS's API keep with a zone, and have no other place for here.
create table powerdns_zones (
  zone_id      bigint primary key references zones on delete cascade,
  kind         text  not null default 'Native',
  soa_edit_api text  not null default '',
  metadata     jsonb not null default '{}' -- kinds that begin with X-, each with its values
);

-- Remarks on RRsets.
create table rrset_comments (
  id          bigint generated always as identity primary key,
  zone_id     bigint      not null references zones on delete cascade,
  owner       bytea       not null, -- wire form, lower case
  type        integer     not null,
  account     text        not null,
  content     text        not null,
  modified_at timestamptz not null
);
create index rrset_comments_zone on rrset_comments (zone_id, owner, type);

-- A company's key by itself says whose it is at PowerDNS's API, where programs send nothing else.
create index companies_apikey on companies (apikey_hash);
