-- What recipients did while a machine did not answer that may have the delivery (Citus): stored as events once it does.
create table kept_touches (
  id    bigint generated always as identity primary key,
  touch json not null -- services/operations/mail/tracking-events.ts
);
