-- What was seen of every attempt to deliver, for as long as PALOMAR_ATTEMPT_RETENTION_DAYS says: append-only, a partition a week
-- (services/store/mail/attempts/attempt-weeks.ts makes and drops them). What is the same for many attempts (the way, and what
-- was said apart from numbers and addresses) stands once for an instance: it makes the rows small, and is what is searched.

-- The ways that attempts took: '' where something is not known, or was not there.
create table attempt_paths (
  id          bigint generated always as identity,
  instance_id bigint      not null references instances on delete cascade,
  exchanger   text        not null, -- its name
  address     text        not null,
  source      text        not null, -- the address of ours
  tls         text        not null, -- 'TLSv1.3'; '' in clear
  cipher      text        not null,
  certificate text        not null, -- 'valid', 'dane', or what is wrong with it
  policy      text        not null check (policy in ('', 'dane', 'mta-sts')), -- in force when it was tried
  seen_at     timestamptz not null default now(), -- to within a day
  primary key (id, instance_id),
  unique (instance_id, exchanger, address, source, tls, cipher, certificate, policy)
);

-- How attempts ended. `words` is the reply without what differs from one recipient to the next.
create table attempt_results (
  id          bigint generated always as identity,
  instance_id bigint      not null references instances on delete cascade,
  outcome     text        not null check (outcome in ('delivered', 'deferred', 'bounced')),
  stage       text        not null, -- of the session, where it failed
  code        smallint    not null, -- 0: nothing was replied
  status      text        not null, -- enhanced status
  reason      text        not null, -- services/core/mail/bounce/reason.ts
  words       text        not null,
  seen_at     timestamptz not null default now(),
  primary key (id, instance_id),
  unique (instance_id, outcome, stage, code, status, reason, words)
);
create index attempt_results_words on attempt_results using gin (to_tsvector('simple', words));

create table delivery_attempts (
  instance_id bigint      not null,
  at          timestamptz not null, -- when it ended, by the database's clock
  delivery_id bigint      not null,
  path_id     bigint, -- null: there was nobody to turn to
  result_id   bigint      not null,
  attempt     integer     not null, -- from 1
  duration_ms integer     not null, -- of it that the far side and the DNS had the turn
  reply       text, -- null: it is the result's words, to the letter
  primary key (delivery_id, at, instance_id)
) partition by range (at);
create index delivery_attempts_result on delivery_attempts (instance_id, result_id, at);
create index delivery_attempts_path on delivery_attempts (instance_id, path_id, at);

-- As for events: a service's own role may neither make nor drop parts.
create function make_attempts_week(first_day date) returns void language plpgsql security definer
set search_path from current as $$
declare
  week text := 'delivery_attempts_' || to_char(first_day, 'YYYY_MM_DD');
begin
  execute format('create table %I (like delivery_attempts including defaults including constraints)', week);
  execute format(
    'alter table delivery_attempts attach partition %I for values from (%L) to (%L)', week,
    to_char(first_day, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(first_day + 7, 'YYYY-MM-DD') || ' 00:00:00+00');
end
$$;

-- Drops a week that is over, with all that is in it. The caller sets a lock_timeout.
create function drop_attempts_week(first_day date) returns void language plpgsql security definer
set search_path from current as $$
begin
  if (first_day + 7)::timestamp at time zone 'UTC' > now() then
    raise exception 'the week of % is not over', first_day;
  end if;
  execute format('drop table %I', 'delivery_attempts_' || to_char(first_day, 'YYYY_MM_DD'));
end
$$;

-- Without a foreign key, whose check would lock the instance's row for every attempt.
create function attempts_follow_instance() returns trigger language plpgsql security definer set search_path from current as $$
begin
  delete from delivery_attempts where instance_id = old.id;
  return null;
end
$$;
create trigger instances_attempts_deleted after delete on instances for each row execute function attempts_follow_instance();
