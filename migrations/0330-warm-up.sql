-- New source addresses, which send by a plan until providers know them.
create table warm_ups (
  source     text        collate "C" primary key, -- an address of ours
  plan       jsonb       not null, -- as config/warm-up.json had it when this began; core/mail/pace/warm-up reads it
  started_at timestamptz not null, -- its days are counted from here; an operator's pause moves it
  started_by text        not null,
  ends_at    timestamptz not null, -- later by the days that a provider has it repeat
  paused_at  timestamptz, -- by an operator
  paused_by  text,
  stopped_at timestamptz, -- before its end, by an operator
  stopped_by text,
  check ((paused_at is null) = (paused_by is null) and (stopped_at is null) = (stopped_by is null))
);

-- A day of a warm-up at a provider. Only who has locked the row of source_paces changes it, but for the complaints.
create table warm_up_days (
  source          text        collate "C" references warm_ups on delete cascade,
  provider        text        collate "C",
  number          integer     not null, -- days since it began
  step            integer     not null, -- day of the plan, from 0
  planned         integer     not null,
  sent            integer     not null, -- leave that was handed out and not given back
  deferred        integer     not null,
  complained      integer     not null default 0,
  sent_before     integer     not null, -- both up to when it went on last
  deferred_before integer     not null,
  paused_until    timestamptz, -- where deferrals or complaints rose
  paused_for      text check (paused_for in ('deferrals', 'complaints')),
  repeated        boolean     not null, -- the next day has the same plan
  primary key (source, provider, number)
) with (fillfactor = 50);

-- Which deliveries left from an address that was new: whom a complaint speaks against.
create table warm_up_deliveries (
  delivery_id bigint,
  instance_id bigint,
  source      text   collate "C" not null,
  provider    text   collate "C" not null,
  primary key (delivery_id, instance_id),
  foreign key (delivery_id, instance_id) references deliveries (id, instance_id) on delete cascade
);
