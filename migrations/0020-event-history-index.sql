-- A contact's history lies scattered over the months: the index alone has to tell it, without a look at each row.
drop index events_contact;
create index events_contact on events (contact_id, at, id) include (kind, machine, campaign_numid)
  where contact_id is not null;
