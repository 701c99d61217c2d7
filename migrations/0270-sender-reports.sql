-- What receivers report about sender domains: DMARC aggregates and reports about TLS. Claimed by strangers, bounded in number.

-- Messages at report addresses wait, and are kept, like those at feedback addresses, with room of their own.
alter table inbound_messages add column is_report boolean not null default false;

create table dmarc_reports (
  id            bigint generated always as identity,
  instance_id   bigint      not null,
  domain        text        not null,
  reporter      text        not null, -- as it calls itself, in lower case
  contact       text        not null,
  report_id     text        not null,
  policy_domain text        not null,
  policy        jsonb       not null, -- PublishedPolicy of services/core/mail/reports/report.ts
  begins_at     timestamptz not null,
  ends_at       timestamptz not null,
  day           date        not null, -- that it counts for
  rows          integer     not null,
  messages      bigint      not null,
  left_out      bigint      not null, -- messages of other domains
  received_at   timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, domain, reporter, report_id),
  foreign key (instance_id, domain) references instance_domains (instance_id, domain) on delete cascade
);
create index dmarc_reports_received on dmarc_reports (instance_id, domain, received_at);
create index dmarc_reports_day on dmarc_reports (instance_id, domain, day);
create index dmarc_reports_age on dmarc_reports (received_at);

create table dmarc_rows (
  dmarc_report bigint  not null,
  position     integer not null,
  instance_id  bigint  not null,
  source       inet    not null,
  header_from  text    not null,
  dkim         boolean not null, -- aligned and passed
  spf          boolean not null,
  disposition  text    not null,
  overridden   text    not null, -- why the policy was not followed; '': it was
  dkim_domain  text    not null,
  spf_domain   text    not null,
  messages     bigint  not null,
  primary key (dmarc_report, position, instance_id),
  foreign key (dmarc_report, instance_id) references dmarc_reports (id, instance_id) on delete cascade
);

-- The same by day.
create table dmarc_days (
  instance_id bigint  not null,
  domain      text    not null,
  day         date    not null,
  source      inet    not null,
  header_from text    not null,
  dkim        boolean not null,
  spf         boolean not null,
  disposition text    not null,
  overridden  boolean not null,
  messages    bigint  not null,
  primary key (instance_id, domain, day, source, header_from, dkim, spf, disposition, overridden),
  foreign key (instance_id, domain) references instance_domains (instance_id, domain) on delete cascade
);
create index dmarc_days_age on dmarc_days (day);

-- Who sends as a domain: when it was seen first, and when it last passed and failed.
create table dmarc_sources (
  instance_id bigint not null,
  domain      text   not null,
  source      inet   not null,
  first_day   date   not null,
  last_day    date   not null,
  last_pass   date,
  last_fail   date,
  dkim_domain text   not null,
  spf_domain  text   not null,
  primary key (instance_id, domain, source),
  foreign key (instance_id, domain) references instance_domains (instance_id, domain) on delete cascade
);
create index dmarc_sources_age on dmarc_sources (last_day);

create table tls_reports (
  id          bigint generated always as identity,
  instance_id bigint      not null,
  domain      text        not null,
  reporter    text        not null,
  contact     text        not null,
  report_id   text        not null,
  begins_at   timestamptz not null,
  ends_at     timestamptz not null,
  day         date        not null,
  rows        integer     not null,
  sessions    bigint      not null,
  received_at timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, domain, reporter, report_id),
  foreign key (instance_id, domain) references instance_domains (instance_id, domain) on delete cascade
);
create index tls_reports_received on tls_reports (instance_id, domain, received_at);
create index tls_reports_age on tls_reports (received_at);

create table tls_days (
  instance_id bigint not null,
  domain      text   not null,
  day         date   not null,
  policy_type text   not null,
  exchanger   text   not null, -- '': not told
  result      text   not null, -- RFC 8460 §4.3; '': success
  sessions    bigint not null,
  primary key (instance_id, domain, day, policy_type, exchanger, result),
  foreign key (instance_id, domain) references instance_domains (instance_id, domain) on delete cascade
);
create index tls_days_age on tls_days (day);
