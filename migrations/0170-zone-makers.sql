-- By whose leave a zone was made, which the rule of core/dns/zone-tenancy asks for: a zone of one company above or below
-- another company's may be the reseller's wish, but never that of the other company. Null: not known.

alter table zones add column made_by text check (made_by in ('operator', 'reseller', 'company'));

-- The history names keys, the operator's commands, and else logins of the console, whose role may be another by now.
update zones
   set made_by = case
         when journal.actor like 'company:%' then 'company'
         when journal.actor like 'reseller:%' then 'reseller'
         else 'operator'
       end
  from zone_journal journal
 where journal.zone_id = zones.id and journal.version = 1 and journal.serial_before is null
   and (journal.actor like 'company:%' or journal.actor like 'reseller:%'
        or (journal.actor = 'operator' and not exists (select 1 from users where login = 'operator')));
