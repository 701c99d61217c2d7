-- A name server reads them at its start, and there are few.
create index zones_suspended on zones (id) where suspended or company_suspended;
