-- What whoever whitelisted an address says of it, as of any entry of the list.
alter table whitelist
  add column note text not null default '',
  add column creator text not null default ''; -- login of who put it there; empty: a command, or a call of the API
