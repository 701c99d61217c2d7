-- Who may call: resellers and companies of the DNS side, instances of the mail side, users of the console.
-- API keys are kept as HMAC-SHA256 under a key derived from PALOMAR_SECRET; the two that the APIs must give back
-- (a company's apikey, a campaign's camp_apikey) are kept sealed (AES-256-GCM) beside their HMAC.

create table resellers (
  id          text primary key,
  name        text        not null,
  key_hash    bytea       not null,
  rpz_licence boolean     not null default false,
  created_at  timestamptz not null default now()
);

create table companies (
  id            bigint generated always as identity primary key,
  reseller_id   text        not null references resellers on delete cascade,
  crm_id        text        not null,
  name          text        not null,
  apikey_sealed text        not null,
  apikey_hash   bytea       not null,
  suspended     boolean     not null default false,
  created_at    timestamptz not null default now(),
  unique (reseller_id, crm_id),
  unique (reseller_id, apikey_hash)
);

create table instances (
  id         bigint generated always as identity primary key,
  name       text        not null unique,
  host       text        not null unique,
  key_hash   bytea       not null unique,
  archive    boolean     not null default false,
  time_zone  text        not null default 'UTC',
  created_at timestamptz not null default now()
);

-- The sender domains of an instance, each with its DKIM key.
create table instance_domains (
  instance_id      bigint      not null references instances on delete cascade,
  domain           text        not null, -- lower case, A-labels
  dkim_selector    text        not null,
  dkim_key_sealed  text        not null, -- PKCS #8 PEM, sealed
  dkim_public_key  text        not null, -- base64 SubjectPublicKeyInfo, the p= of RFC 6376 §3.6.1
  created_at       timestamptz not null default now(),
  primary key (instance_id, domain)
);

create table users (
  id            bigint generated always as identity primary key,
  login         text        not null unique,
  password_hash text        not null, -- scrypt$N$r$p$salt$hash
  role          text        not null check (role in ('operator', 'reseller', 'company', 'instance')),
  scope         text,
  created_at    timestamptz not null default now()
);

-- Facts about this deployment itself, such as that its demonstration accounts were made.
create table deployment_facts (
  name  text primary key,
  value text not null
);
