-- DNS UPDATE (RFC 2136). The name servers put requests here, signed as they came; the DNS API's workers judge and make them,
-- each in one transaction with its response code, which the name server then sends.

-- Whether the zone takes updates; null: as its reseller's zones do.
alter table zones add column updates boolean;

-- Resellers whose zones take updates unless the zone says otherwise.
create table reseller_updates (
  reseller_id text primary key references resellers on delete cascade
);

-- A row stays for as long as its message could be sent once more (RFC 8945 §5.2.3), so that none is made twice.
create table dns_updates (
  id          bigint generated always as identity primary key,
  zone_id     bigint      not null, -- of no foreign key: rows of zones that are gone go by their age
  digest      bytea       not null unique, -- SHA-256 of the message, its signature included
  message     bytea, -- null once it is judged
  client      text        not null, -- the address that it came from
  received_at timestamptz not null default now(),
  begin_by    timestamptz not null, -- is not begun later: nobody waits for it any more
  rcode       smallint, -- null: not judged
  judged_at   timestamptz
);
create index dns_updates_waiting on dns_updates (id) where rcode is null;
create index dns_updates_received on dns_updates (received_at);
