-- Spreads the tables of a deployment over a Citus cluster, by instance (docs/scaling.md). For psql, on the coordinator, as
-- the owner of the tables, once `palomar migrate` has run. Tables that are not named here stay on the coordinator. test/service/citus-layout.test.ts runs this file on a Citus.

begin;

-- All tables are locked at once: taken one by one, this script and a writer could wait for each other. Should PostgreSQL find here
-- that they do already ("deadlock detected"), nothing has happened: run the script again.
lock table
  instances, global_suppressions, instance_domains, instance_guards, sending_limits, sending_counts, dkim_keys,
  domain_upkeep, instance_companies, outcome_deltas, outcome_counts, credential_places, contacts, groups,
  contact_groups, whitelist, suppressions, globals, filters, campaigns, campaign_unsubscriptions, campaign_sends,
  campaign_recipients, batches, content_verdicts, messages, message_attachments, tracked_links, partitions,
  deliveries, warm_up_deliveries, archived_messages, delivery_reports, report_counts, idempotency_keys, conversions,
  events, delivery_attempts, attempt_paths, attempt_results, event_count_deltas, event_counts, event_feeds, webhooks,
  webhook_events, webhook_batches, dmarc_reports, dmarc_rows, dmarc_days, dmarc_sources, tls_reports, tls_days,
  host_certificates, certificate_orders in access exclusive mode;

-- A table that a reference table refers to, or is referred to by, would be made one of Citus's own before its turn comes, and
-- then cannot be distributed where its ids are numbered.
set local citus.enable_local_reference_table_foreign_keys to off;

-- From here on whoever deletes a row of instances deletes its users as well, and gives what console_audit and console_jobs
-- tell of it to the operators: their scope is the instance's name.
drop trigger instances_users_deleted on instances;
drop function users_follow_instance();
-- Attempts of an instance that is deleted go with their weeks.
drop trigger instances_attempts_deleted on instances;
drop function attempts_follow_instance();
-- Events that are to be told go with the instance's feed.
drop trigger instances_webhook_events_deleted on instances;
drop function webhook_events_follow_instance();
alter table webhook_events add foreign key (instance_id) references event_feeds on delete cascade;
-- Contacts go with their instance, and deliveries with their partition, by foreign keys.
drop trigger contacts_owned on contacts;
drop trigger instances_contacts_deleted on instances;
drop trigger partitions_deliveries_deleted on partitions;
drop function contacts_have_instances(), contacts_follow_instance(), deliveries_follow_partitions();
alter table contacts add foreign key (instance_id) references instances on delete cascade;
alter table deliveries add foreign key (partition_id, instance_id) references partitions (id, instance_id) on delete cascade;

-- While an instance moves to another machine, what is changed or deleted meanwhile is told to that one by its key.
alter table webhook_events add primary key (serial, instance_id);
alter table outcome_deltas replica identity full;
alter table event_count_deltas replica identity full;

-- Small, read everywhere, and referred to: a copy on every machine.
select create_reference_table('instances');
select create_reference_table('global_suppressions');

-- An instance's rows of all these tables lie on one machine. Tables come after those that they refer to.
select create_distributed_table('instance_domains', 'instance_id');
select create_distributed_table('instance_guards', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('sending_limits', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('sending_counts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('dkim_keys', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('domain_upkeep', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('instance_companies', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('outcome_deltas', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('outcome_counts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('credential_places', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('contacts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('groups', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('contact_groups', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('whitelist', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('suppressions', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('globals', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('filters', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('campaigns', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('campaign_unsubscriptions', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('campaign_sends', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('campaign_recipients', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('batches', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('content_verdicts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('messages', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('message_attachments', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('tracked_links', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('partitions', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('deliveries', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('warm_up_deliveries', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('archived_messages', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('delivery_reports', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('report_counts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('idempotency_keys', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('conversions', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('events', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('delivery_attempts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('attempt_paths', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('attempt_results', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('event_count_deltas', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('event_counts', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('event_feeds', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('webhooks', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('webhook_events', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('webhook_batches', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('dmarc_reports', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('dmarc_rows', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('dmarc_days', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('dmarc_sources', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('tls_reports', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('tls_days', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('host_certificates', 'instance_id', colocate_with => 'instance_domains');
select create_distributed_table('certificate_orders', 'instance_id', colocate_with => 'instance_domains');

commit;
