-- The console's record and its jobs follow a company's crm_id as accounts do. Of what is gone they are its reseller's, or
-- the operators': the next company, reseller or instance of the same name reads none of it.

create or replace function users_follow_company() returns trigger
  language plpgsql security definer set search_path from current as $$
declare
  before constant text := old.reseller_id || '/' || old.crm_id;
  after_role text := 'company';
  after text;
begin
  if tg_op = 'UPDATE' then
    after := new.reseller_id || '/' || new.crm_id;
    update users set scope = after where role = 'company' and scope = before;
  else
    delete from users where role = 'company' and scope = before;
    -- A reseller that is deleted goes before its companies.
    select id into after from resellers where id = old.reseller_id;
    after_role := case when after is null then 'operator' else 'reseller' end;
  end if;
  update console_audit set scope_role = after_role, scope = after where scope_role = 'company' and scope = before;
  update console_jobs set scope_role = after_role, scope = after where scope_role = 'company' and scope = before;
  return null;
end
$$;

create or replace function users_follow_reseller() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  delete from users where role = 'reseller' and scope = old.id;
  update console_audit set scope_role = 'operator', scope = null where scope_role = 'reseller' and scope = old.id;
  update console_jobs set scope_role = 'operator', scope = null where scope_role = 'reseller' and scope = old.id;
  return null;
end
$$;

create or replace function users_follow_instance() returns trigger
  language plpgsql security definer set search_path from current as $$
begin
  delete from users where role = 'instance' and scope = old.name;
  update console_audit set scope_role = 'operator', scope = null where scope_role = 'instance' and scope = old.name;
  update console_jobs set scope_role = 'operator', scope = null where scope_role = 'instance' and scope = old.name;
  return null;
end
$$;

update console_audit set scope_role = 'reseller', scope = split_part(scope, '/', 1)
 where scope_role = 'company' and not exists (select from companies c where c.reseller_id || '/' || c.crm_id = scope);
update console_jobs set scope_role = 'reseller', scope = split_part(scope, '/', 1)
 where scope_role = 'company' and not exists (select from companies c where c.reseller_id || '/' || c.crm_id = scope);

-- Names are read first: a Citus whose tables are spread has an update that reads instances go to a machine without these tables.
do $$
declare
  names constant text[] := array(select name from instances);
begin
  update console_audit set scope_role = 'operator', scope = null
   where scope_role = 'reseller' and not exists (select from resellers r where r.id = scope)
      or scope_role = 'instance' and scope <> all (names);
  update console_jobs set scope_role = 'operator', scope = null
   where scope_role = 'reseller' and not exists (select from resellers r where r.id = scope)
      or scope_role = 'instance' and scope <> all (names);
end
$$;
