-- How messages submitted under a campaign are treated. Defaults are constants: no row is rewritten.
alter table campaigns
  add column submission_archive  boolean not null default false, -- keep the exact octets that each recipient gets
  add column submission_tracking boolean not null default true;  -- count opens and clicks of HTML parts

-- Of finished messages whose HTML is tracked: where each recipient's own URLs go, and where its links lead
-- (MessageTracking of services/core/mail/message-places.ts).
alter table messages add column tracking jsonb;
