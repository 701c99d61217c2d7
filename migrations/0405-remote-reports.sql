-- What another mail system's report gives beside its words (RemoteReport of services/core/mail/delivery-report.ts); null where the
-- words are of a session of ours.
alter table delivery_reports add column reported jsonb;
