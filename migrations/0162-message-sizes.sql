-- Octets of the content with its attachments: a worker makes room for them before it loads them. Null: of an earlier
-- release.
alter table messages add column content_octets bigint;
