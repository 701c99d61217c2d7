-- What the sender of a file says it is; null: its name tells.
alter table message_attachments add column content_type text;
