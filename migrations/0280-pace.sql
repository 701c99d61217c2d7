-- What is learnt of a provider (a group of config/domain-groups.json, or a domain) that a source sends to.
create table source_paces (
  source          text collate "C",
  provider        text collate "C",
  memory          jsonb            not null default '{}', -- what was learnt; core/mail/pace/controller reads it
  pins            jsonb            not null default '{}', -- what an operator fixed
  pinned_by       text,
  tokens          double precision not null default 1, -- messages for which leave may be taken
  filled_at       timestamptz      not null default now(),
  metered_at      timestamptz      not null default now(), -- beginning of the measure that follows
  metered         integer          not null default 0, -- messages tried since
  tried_per_hour  double precision not null default 0, -- by the measure before
  used_at         timestamptz      not null default now(),
  primary key (source, provider)
) with (fillfactor = 50);

-- Sessions that workers hold or may open, where their number is limited; those of a worker that died end with their time.
create table pace_sessions (
  source   text collate "C",
  provider text collate "C",
  worker   uuid,
  sessions integer     not null, -- that are open
  granted  integer     not null, -- that it may have
  until    timestamptz not null,
  primary key (source, provider, worker),
  foreign key (source, provider) references source_paces on delete cascade
);

-- What became of messages, in five minutes each, where the pace is limited.
create table pace_counts (
  source    text collate "C",
  provider  text collate "C",
  at        timestamptz,
  allowed   double precision not null, -- by the rate in force, as it was last
  tried     integer not null,
  delivered integer not null,
  deferred  integer not null, -- by replies that want less
  primary key (source, provider, at)
);
create index pace_counts_at on pace_counts (at);
