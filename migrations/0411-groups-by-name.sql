-- Groups are listed by name, whatever its case, page by page.
create index groups_by_name on groups (instance_id, lower(name), id);
