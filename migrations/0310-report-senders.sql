-- Whose reports count: those that came from a receiver that is known, with its signature, soon after the time that they are about.
-- The others are shown, and nothing is proposed by them.

-- The reporter's domain that signed the message; '': nobody's signature was found valid.
alter table dmarc_reports add column signed_by text not null default '';
alter table dmarc_reports add column counts boolean not null default false;

alter table dmarc_days add column counts boolean not null default false;
alter table dmarc_days drop constraint dmarc_days_pkey;
alter table dmarc_days add primary key (instance_id, domain, day, source, header_from, dkim, spf, disposition, overridden, counts);

-- A source is one of the domain's by reports that count; of those before nobody knows.
update dmarc_sources set last_pass = null, last_fail = null, dkim_domain = '', spf_domain = '';
