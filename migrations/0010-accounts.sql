-- Who may call: resellers and companies of the DNS side, instances of the mail side.
-- API keys are kept as HMAC-SHA256 under a key derived from PALOMAR_SECRET; the two that the APIs must give back
-- (a company's apikey, a campaign's camp_apikey) are kept sealed (AES-256-GCM) beside their HMAC.

-- Facts about this deployment itself, such as that its demonstration accounts were made.
create table deployment_facts (
  name  text primary key,
  value text not null
);
-- Which life of the database this is: a restore begins another (services/store/incarnation.ts). A DNS server that starts
-- from a snapshot file compares versions of zones only within one life.
insert into deployment_facts (name, value) values ('incarnation', gen_random_uuid()::text);

create table resellers (
  id                 text primary key,
  name               text        not null,
  key_hash           bytea       not null,
  previous_key_hash  bytea, -- accepted until its grace ends
  previous_key_until timestamptz,
  rpz_licence        boolean     not null default false,
  created_at         timestamptz not null default now()
);

create table companies (
  id            bigint generated always as identity primary key,
  reseller_id   text        not null references resellers on delete cascade,
  crm_id        text        not null, -- lower case
  name          text        not null,
  apikey_sealed text        not null,
  apikey_hash   bytea       not null,
  suspended     boolean     not null default false,
  created_at    timestamptz not null default now(),
  unique (reseller_id, crm_id),
  unique (reseller_id, apikey_hash)
);

create table instances (
  id                     bigint generated always as identity primary key,
  name                   text        not null unique,
  host                   text        not null unique,
  key_hash               bytea       not null unique,
  previous_key_hash      bytea       unique, -- accepted until its grace ends
  previous_key_until     timestamptz,
  archive                boolean     not null default false,
  time_zone              text        not null default 'UTC',
  conversions            boolean     not null default false, -- clicked links carry a conversion token
  creates_records        boolean     not null default false, -- its users may add records to zones that are hosted here
  -- Null: kept for ever. Unsubscribe links have to work for 30 days after the sending: 15 U.S.C. 7704(a)(3)(A)(ii).
  message_retention_days integer check (message_retention_days >= 30),
  event_retention_days   integer check (event_retention_days > 0),
  archive_retention_days integer check (archive_retention_days > 0),
  created_at             timestamptz not null default now()
);

-- The sender domains of an instance, each with its DKIM key.
create table instance_domains (
  instance_id     bigint      not null references instances on delete cascade,
  domain          text        not null, -- lower case, A-labels
  dkim_selector   text        not null,
  dkim_key_sealed text        not null, -- PKCS #8 PEM, sealed
  dkim_record     text        not null, -- the TXT value that publishes the key (RFC 6376 §3.6.1)
  created_at      timestamptz not null default now(),
  primary key (instance_id, domain)
);
