-- Accounts go with what they are confined to, and follow a company's crm_id: one that stayed behind would open the next
-- company, reseller or instance of the same name. Whoever changes those tables need have no rights on accounts.

create function users_follow_company() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'DELETE' then
    delete from users where role = 'company' and scope = old.reseller_id || '/' || old.crm_id;
  else
    update users set scope = new.reseller_id || '/' || new.crm_id
     where role = 'company' and scope = old.reseller_id || '/' || old.crm_id;
  end if;
  return null;
end
$$;
create trigger companies_users_deleted after delete on companies
  for each row execute function users_follow_company();
create trigger companies_users_renamed after update of crm_id on companies
  for each row when (old.crm_id <> new.crm_id) execute function users_follow_company();

create function users_follow_reseller() returns trigger language plpgsql security definer set search_path from current as $$
begin
  delete from users where role = 'reseller' and scope = old.id;
  return null;
end
$$;
create trigger resellers_users_deleted after delete on resellers
  for each row execute function users_follow_reseller();

create function users_follow_instance() returns trigger language plpgsql security definer set search_path from current as $$
begin
  delete from users where role = 'instance' and scope = old.name;
  return null;
end
$$;
create trigger instances_users_deleted after delete on instances
  for each row execute function users_follow_instance();
