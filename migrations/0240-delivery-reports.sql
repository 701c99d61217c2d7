-- Reports to who submitted a message (RFC 3461, RFC 3464): what the client asked for, and what is to be told.

-- Who is told, and how: { mailFrom, international, returns, envelopeId } (ReportRequest of services/store/mail/sends/messages.ts);
-- null where nobody is told anything.
alter table messages add column dsn jsonb;
-- The message is such a report: it leaves from <>, and is nobody's statistics.
alter table messages add column is_report boolean not null default false;
alter table batches add column is_report boolean not null default false;
-- NOTIFY and ORCPT of the recipient (RecipientDsn of services/core/mail/dsn-parameters.ts).
alter table deliveries add column dsn jsonb;

-- Submitted messages whose client said nothing of reports are reported on as well.
alter table instances add column failure_reports boolean not null default false;
-- What reports are written in.
alter table instances add column language text not null default 'en' check (language in ('en', 'es'));

-- What a sender is to be told of a recipient, each kind once. A row is written in the transaction that settles the delivery, and
-- goes into a report in another one, which changes its state and queues the report.
create table delivery_reports (
  id                bigint generated always as identity,
  instance_id       bigint      not null,
  message_id        bigint      not null,
  delivery_id       bigint, -- null of a recipient that nothing was sent to
  kind              text        not null check (kind in ('failure', 'delay', 'success')),
  -- `watching`: it becomes due if the delivery is still queued after a while (config/delivery.json).
  state             text        not null check (state in ('watching', 'due', 'told', 'withheld')),
  action            text        not null check (action in ('failed', 'delayed', 'delivered', 'relayed', 'expanded')),
  recipient         text        not null, -- address as it was given
  dsn               jsonb, -- as of the delivery
  words             text        not null default '', -- the last reply, on one line
  report_message_id bigint, -- the report that told it
  created_at        timestamptz not null default now(),
  due_at            timestamptz not null default now(), -- put off while the sender has had enough reports
  primary key (id, instance_id),
  unique (delivery_id, kind, instance_id),
  foreign key (message_id, instance_id) references messages (id, instance_id) on delete cascade,
  foreign key (delivery_id, instance_id) references deliveries (id, instance_id) on delete cascade
);
create index delivery_reports_due on delivery_reports (due_at) where state = 'due';
create index delivery_reports_watching on delivery_reports (created_at) where state = 'watching';
create index delivery_reports_message on delivery_reports (message_id);
create index delivery_reports_unsent on delivery_reports (instance_id, recipient) where delivery_id is null;

-- How many reports an address was sent within an hour.
create table report_counts (
  instance_id bigint      not null references instances on delete cascade,
  mail_from   text        not null,
  hour        timestamptz not null,
  reports     integer     not null,
  primary key (instance_id, mail_from, hour)
);
create index report_counts_age on report_counts (hour);
