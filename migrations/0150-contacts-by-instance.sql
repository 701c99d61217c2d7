-- Contacts, groups and campaigns by instance: every row of an instance's says so, and every key and foreign key contains it,
-- so that Citus can keep an instance's rows on one machine (deploy/citus.sql). Ids stay unique over the deployment, and come
-- first in the keys: who knows an id alone finds its row as before.
--
-- Step by step, as tables may be large: a column that the release before does not know, and that a trigger fills for it;
-- what was there before, in portions; unique indexes made concurrently; foreign keys validated apart from being made. No
-- step holds up anybody for longer than a look at the catalogue takes. What serves the release before alone (the triggers,
-- two unique indexes) is removed by deploy/citus.sql, and by the release after this.

-- step
-- Fills instance_id from the row that a column refers to. Arguments: that column, the table, its key.
create function fill_instance() returns trigger language plpgsql security definer as $$
begin
  execute format('select instance_id from %I where %I = ($1).%I', tg_argv[1], tg_argv[2], tg_argv[0])
    into new.instance_id using new;
  return new;
end
$$;
alter function fill_instance() set search_path from current;

-- Fills it in the rows that were there before, some hundred pages a transaction. Rows that somebody is changing are
-- passed over: the trigger fills them, or another look does. So nobody is ever waited for.
create procedure fill_instances(child regclass, reference text, parent regclass, key text) language plpgsql as $$
declare
  pages constant integer := 200;
  missed boolean := true;
  filled bigint;
  empty bigint;
begin
  while missed loop
    missed := false;
    for page in 0 .. pg_relation_size(child) / current_setting('block_size')::integer by pages loop
      execute format(
        'select count(*) from %s where instance_id is null and ctid >= %L and ctid < %L',
        child, format('(%s,0)', page), format('(%s,0)', page + pages)) into empty;
      continue when empty = 0;
      execute format(
        'update %1$s as child set instance_id = parent.instance_id
         from (select ctid, %2$I as reference from %1$s where instance_id is null and ctid >= %5$L and ctid < %6$L
           for no key update skip locked) as chosen
         join %3$s as parent on parent.%4$I = chosen.reference where child.ctid = chosen.ctid',
        child, reference, parent, key, format('(%s,0)', page), format('(%s,0)', page + pages));
      get diagnostics filled = row_count;
      missed := missed or filled < empty;
      commit;
    end loop;
    perform pg_sleep(0.1) where missed;
  end loop;
end
$$;

-- step
alter table contact_groups add column instance_id bigint;
create trigger contact_groups_instance before insert or update on contact_groups
  for each row when (new.instance_id is null) execute function fill_instance('contact_id', 'contacts', 'id');

-- step
alter table campaign_unsubscriptions add column instance_id bigint;
create trigger campaign_unsubscriptions_instance before insert or update on campaign_unsubscriptions
  for each row when (new.instance_id is null) execute function fill_instance('contact_id', 'contacts', 'id');

-- step
alter table campaign_recipients add column instance_id bigint;
create trigger campaign_recipients_instance before insert or update on campaign_recipients
  for each row when (new.instance_id is null) execute function fill_instance('campaign_numid', 'campaigns', 'numid');

-- step, outside a transaction
call fill_instances('contact_groups', 'contact_id', 'contacts', 'id');

-- step, outside a transaction
call fill_instances('campaign_unsubscriptions', 'contact_id', 'contacts', 'id');

-- step, outside a transaction
call fill_instances('campaign_recipients', 'campaign_numid', 'campaigns', 'numid');

-- step
alter table contact_groups add constraint contact_groups_instance check (instance_id is not null) not valid;

-- step
alter table contact_groups validate constraint contact_groups_instance;

-- step
alter table contact_groups alter column instance_id set not null;
alter table contact_groups drop constraint contact_groups_instance;

-- step
alter table campaign_unsubscriptions add constraint campaign_unsubscriptions_instance check (instance_id is not null) not valid;

-- step
alter table campaign_unsubscriptions validate constraint campaign_unsubscriptions_instance;

-- step
alter table campaign_unsubscriptions alter column instance_id set not null;
alter table campaign_unsubscriptions drop constraint campaign_unsubscriptions_instance;

-- step
alter table campaign_recipients add constraint campaign_recipients_instance check (instance_id is not null) not valid;

-- step
alter table campaign_recipients validate constraint campaign_recipients_instance;

-- step
alter table campaign_recipients alter column instance_id set not null;
alter table campaign_recipients drop constraint campaign_recipients_instance;

-- step, outside a transaction
create unique index concurrently if not exists contacts_key on contacts (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists groups_key on groups (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists filters_key on filters (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaigns_key on campaigns (numid, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaigns_id on campaigns (id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists contact_groups_key on contact_groups (contact_id, group_id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaign_unsubscriptions_key on campaign_unsubscriptions (contact_id, campaign_numid, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaign_recipients_key on campaign_recipients (campaign_numid, contact_id, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaign_sends_key on campaign_sends (campaign_numid, instance_id);

-- step, outside a transaction
create unique index concurrently if not exists campaign_sends_numid on campaign_sends (campaign_numid);

-- step
alter table contact_groups add constraint contact_groups_contact_id_instance
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade not valid;

-- step
alter table contact_groups validate constraint contact_groups_contact_id_instance;

-- step
alter table contact_groups add constraint contact_groups_group_id_instance
  foreign key (group_id, instance_id) references groups (id, instance_id) on delete cascade not valid;

-- step
alter table contact_groups validate constraint contact_groups_group_id_instance;

-- step
alter table campaign_unsubscriptions add constraint campaign_unsubscriptions_contact_id_instance
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade not valid;

-- step
alter table campaign_unsubscriptions validate constraint campaign_unsubscriptions_contact_id_instance;

-- step
alter table campaign_unsubscriptions add constraint campaign_unsubscriptions_campaign_numid_instance
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade not valid;

-- step
alter table campaign_unsubscriptions validate constraint campaign_unsubscriptions_campaign_numid_instance;

-- step
alter table campaign_recipients add constraint campaign_recipients_campaign_numid_instance
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade not valid;

-- step
alter table campaign_recipients validate constraint campaign_recipients_campaign_numid_instance;

-- step
alter table campaign_sends add constraint campaign_sends_campaign_numid_instance
  foreign key (campaign_numid, instance_id) references campaigns (numid, instance_id) on delete cascade not valid;

-- step
alter table campaign_sends validate constraint campaign_sends_campaign_numid_instance;

-- step
alter table conversions add constraint conversions_contact_id_instance
  foreign key (contact_id, instance_id) references contacts (id, instance_id) on delete cascade not valid;

-- step
alter table conversions validate constraint conversions_contact_id_instance;

-- step
alter table contact_groups drop constraint contact_groups_contact_id_fkey;
alter table contact_groups rename constraint contact_groups_contact_id_instance to contact_groups_contact_id_fkey;

-- step
alter table contact_groups drop constraint contact_groups_group_id_fkey;
alter table contact_groups rename constraint contact_groups_group_id_instance to contact_groups_group_id_fkey;

-- step
alter table campaign_unsubscriptions drop constraint campaign_unsubscriptions_contact_id_fkey;
alter table campaign_unsubscriptions rename constraint campaign_unsubscriptions_contact_id_instance to campaign_unsubscriptions_contact_id_fkey;

-- step
alter table campaign_unsubscriptions drop constraint campaign_unsubscriptions_campaign_numid_fkey;
alter table campaign_unsubscriptions rename constraint campaign_unsubscriptions_campaign_numid_instance to campaign_unsubscriptions_campaign_numid_fkey;

-- step
alter table campaign_recipients drop constraint campaign_recipients_campaign_numid_fkey;
alter table campaign_recipients rename constraint campaign_recipients_campaign_numid_instance to campaign_recipients_campaign_numid_fkey;

-- step
alter table campaign_sends drop constraint campaign_sends_campaign_numid_fkey;
alter table campaign_sends rename constraint campaign_sends_campaign_numid_instance to campaign_sends_campaign_numid_fkey;

-- step
alter table conversions drop constraint conversions_contact_id_fkey;
alter table conversions rename constraint conversions_contact_id_instance to conversions_contact_id_fkey;

-- step
alter table contacts drop constraint contacts_pkey, add constraint contacts_pkey primary key using index contacts_key;

-- step
alter table groups drop constraint groups_pkey, add constraint groups_pkey primary key using index groups_key;

-- step
alter table filters drop constraint filters_pkey, add constraint filters_pkey primary key using index filters_key;

-- step
alter table campaigns drop constraint campaigns_pkey, add constraint campaigns_pkey primary key using index campaigns_key;

-- step
alter table contact_groups drop constraint contact_groups_pkey, add constraint contact_groups_pkey primary key using index contact_groups_key;

-- step
alter table campaign_unsubscriptions drop constraint campaign_unsubscriptions_pkey, add constraint campaign_unsubscriptions_pkey primary key using index campaign_unsubscriptions_key;

-- step
alter table campaign_recipients drop constraint campaign_recipients_pkey, add constraint campaign_recipients_pkey primary key using index campaign_recipients_key;

-- step
alter table campaign_sends drop constraint campaign_sends_pkey, add constraint campaign_sends_pkey primary key using index campaign_sends_key;

-- step
alter table campaigns drop constraint campaigns_id_key, add constraint campaigns_id_key unique using index campaigns_id;
