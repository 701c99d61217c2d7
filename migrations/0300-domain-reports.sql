-- What is reported to domains about TLS (RFC 8460), and certificates for hosts of sender domains.

-- Sessions with exchangers, as deliveries opened them: added to only, with the outcomes, where PALOMAR_TLS_REPORTS is on.
create table tls_sessions (
  day               date    not null default (now() at time zone 'UTC')::date,
  destination       text    not null, -- domain of the recipients
  policy_type       text    not null check (policy_type in ('tlsa', 'sts', 'no-policy-found')),
  policy            text[]  not null, -- TLSA records, or the lines of an MTA-STS policy
  policy_exchangers text[]  not null, -- that the MTA-STS policy names
  exchanger         text    not null,
  address           text    not null, -- '': it was not spoken to
  source            text    not null, -- the address of ours
  result            text    not null, -- RFC 8460 §4.3; '': success
  reason            text    not null,
  sessions          integer not null
);
create index tls_sessions_day on tls_sessions (day, destination);

-- What becomes of a day's report to a domain: first the question where it goes (uri ''), then one row for each place.
create table tls_report_sendings (
  day         date        not null,
  destination text        not null,
  uri         text        not null,
  target      text        not null default '', -- the host, or the domain, that it burdens
  state       text        not null default 'due' check (state in ('due', 'sent', 'unwanted', 'failed')),
  attempts    integer     not null default 0,
  due_at      timestamptz not null,
  ended_at    timestamptz,
  reply       text        not null default '', -- what was said to the last attempt
  primary key (day, destination, uri)
);
create index tls_report_sendings_due on tls_report_sendings (due_at) where state = 'due';
create index tls_report_sendings_target on tls_report_sendings (target, day);
create index tls_report_sendings_ended on tls_report_sendings (ended_at);

-- Accounts at certificate authorities (RFC 8555), by the URL of their directory.
create table acme_accounts (
  directory   text not null primary key,
  account_url text not null,
  key_sealed  text not null -- PKCS #8 PEM, sealed
);

-- Certificates of hosts of sender domains that lead here; a row is there from when one is wanted.
create table host_certificates (
  instance_id bigint      not null,
  domain      text        not null,
  host        text        not null,
  chain       text, -- PEM, its own first; null: none yet
  key_sealed  text, -- PKCS #8 PEM, sealed
  not_after   timestamptz,
  renew_at    timestamptz, -- null: at once
  challenge   text, -- TXT value that was put into the zone for the authority, and is to be taken away
  failures    integer     not null default 0, -- since the last one that was obtained
  failure     text        not null default '', -- why there is none, or no newer one; '': nothing is wrong
  try_at      timestamptz not null default now(), -- nobody orders before
  primary key (instance_id, domain, host),
  foreign key (instance_id, domain) references instance_domains on delete cascade
);
create index host_certificates_host on host_certificates (host);
create index host_certificates_due on host_certificates (try_at);

-- Orders, counted against how many there may be in a day.
create table certificate_orders (
  id          bigint      generated always as identity,
  instance_id bigint      not null references instances on delete cascade,
  host        text        not null,
  ordered_at  timestamptz not null default now(),
  primary key (id, instance_id)
);
create index certificate_orders_at on certificate_orders (ordered_at);
