-- Sender domains that set themselves up and stay right.

-- Keys beside the one that instance_domains has: those of another algorithm, those that are to take over, and those that
-- mail on its way is still verified with.
create table dkim_keys (
  id          bigint generated always as identity,
  instance_id bigint      not null,
  domain      text        not null,
  selector    text        not null, -- has the instance's id in it: instances with one domain share its names
  algorithm   text        not null check (algorithm in ('rsa', 'ed25519')),
  key_sealed  text        not null, -- PKCS #8 PEM, sealed
  record      text        not null, -- the TXT value that publishes it (RFC 6376 §3.6.1, RFC 8463 §4)
  -- new: published and waited for; signing; old: no longer signed with; done: to be taken out of the zone
  state       text        not null check (state in ('new', 'signing', 'old', 'done')),
  made_at     timestamptz not null,
  seen_since  timestamptz, -- of a new one: since when every look has found it at all name servers
  retired_at  timestamptz, -- of an old one: since when nothing is signed with it
  primary key (id, instance_id),
  foreign key (instance_id, domain) references instance_domains on delete cascade,
  unique (instance_id, domain, selector)
);

-- How each sender domain is to be set up, and what the last look at its records found.
create table domain_upkeep (
  instance_id   bigint      not null,
  domain        text        not null,
  -- The zone hosted here whose records follow: as whoever may change it agreed. Ids are never used again.
  zone_id       bigint,
  agreed_by     text, -- the login
  by_operator   boolean     not null default false, -- else by leave of the zone's company, for as long as that holds
  sts_mode      text        check (sts_mode in ('testing', 'enforce')), -- null: no MTA-STS
  sts_exchangers text[]     not null default '{}', -- of the policy that is served
  tls_reports   boolean     not null default true,
  tracking_host text, -- recipients' links lead to it, once it leads here
  links_ready   boolean     not null default false, -- it does
  rotate_days   integer     check (rotate_days >= 7), -- null: keys change when somebody says so
  rotated_at    timestamptz not null default now(),
  checks        jsonb, -- what the last look found: SetupItem of core/mail/domain-setup
  checked_at    timestamptz,
  due_at        timestamptz not null default now(),
  lease_owner   uuid, -- who looks at it
  lease_until   timestamptz,
  primary key (instance_id, domain),
  foreign key (instance_id, domain) references instance_domains on delete cascade
);
create index domain_upkeep_due on domain_upkeep (due_at);
create index domain_upkeep_domain on domain_upkeep (domain);
insert into domain_upkeep (instance_id, domain) select instance_id, domain from instance_domains;

-- Companies whose zones an instance's users may change for its sender domains: by the company's own word, its reseller's, or
-- the operator's.
create table instance_companies (
  instance_id bigint      not null references instances on delete cascade,
  company_id  bigint      not null, -- companies; one that is gone has no zones
  granted_by  text        not null, -- the login
  granted_at  timestamptz not null default now(),
  primary key (instance_id, company_id)
);

-- What messages carry beside: Feedback-ID, and CFBL-Address (RFC 9477).
alter table instances add column feedback_id boolean not null default false;
alter table instances add column feedback_address boolean not null default false;
