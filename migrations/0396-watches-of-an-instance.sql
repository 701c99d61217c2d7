-- What is watched for a delay is looked through of one instance after the other, its oldest first.

-- step, outside a transaction
create index concurrently if not exists delivery_reports_watches on delivery_reports (instance_id, created_at) where state = 'watching';
