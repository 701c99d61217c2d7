-- A report that nobody signed does not take the place of one that its reporter signs, whatever it calls itself.
alter table dmarc_reports drop constraint dmarc_reports_instance_id_domain_reporter_report_id_key;
alter table dmarc_reports add unique (instance_id, domain, reporter, report_id, signed_by);
