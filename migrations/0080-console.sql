-- The console: its users, who is signed in, who did what, and what takes long.

create table users (
  id                  bigint generated always as identity primary key,
  login               text        not null unique,
  password_hash       text        not null, -- scrypt$N$r$p$salt$hash
  password_changed_at timestamptz not null default now(),
  role                text        not null check (role in ('operator', 'reseller', 'company', 'instance')),
  scope               text, -- reseller id, reseller id/crm_id, or instance name
  -- The second factor (RFC 6238). A new secret is pending until a code of it was given once. `totp_step` is the time step
  -- of the last code that was accepted: neither it nor an earlier one is accepted again.
  totp_sealed         text,
  totp_pending_sealed text,
  totp_step           bigint      not null default 0,
  recovery_hashes     bytea[]     not null default '{}',
  created_at          timestamptz not null default now()
);

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

-- Sessions by the digest of their token: what is stored here opens nothing.
create table console_sessions (
  id         bigint generated always as identity primary key,
  token_hash bytea       not null unique,
  user_id    bigint      not null references users on delete cascade,
  created_at timestamptz not null,
  seen_at    timestamptz not null, -- to the minute
  address    text        not null,
  agent      text        not null
);
create index console_sessions_user on console_sessions (user_id);

-- Failed sign-ins, per login and per address. The attempt is counted before the password is looked at.
create table console_lockouts (
  subject      text primary key, -- address:<address>, or login:<digest>
  failures     integer     not null,
  last_at      timestamptz not null,
  locked_until timestamptz
);
create index console_lockouts_last on console_lockouts (last_at);

-- Every change made through the console. What it touched stands in scope_role and scope as in users; the row is
-- written before the change is made and settled afterwards, so that none goes unrecorded.
create table console_audit (
  id         bigint generated always as identity primary key,
  at         timestamptz not null,
  actor      text        not null,
  address    text        not null,
  action     text        not null,
  object     text        not null,
  detail     jsonb       not null default '{}',
  scope_role text        not null check (scope_role in ('operator', 'reseller', 'company', 'instance')),
  scope      text,
  outcome    text        not null default 'begun' check (outcome in ('begun', 'done'))
);
create index console_audit_scope on console_audit (scope_role, scope, id);
create index console_audit_actor on console_audit (actor, id);
create index console_audit_at on console_audit (at);

-- Long work, run by a console process that says every few seconds that it still lives.
create table console_jobs (
  id           uuid primary key,
  kind         text        not null,
  owner        text        not null, -- login
  object       text        not null,
  scope_role   text        not null check (scope_role in ('operator', 'reseller', 'company', 'instance')),
  scope        text,
  state        text        not null default 'running' check (state in ('running', 'done', 'failed')),
  done         bigint      not null default 0,
  total        bigint, -- null: not known
  result       jsonb,
  errors       jsonb       not null default '[]',
  created_at   timestamptz not null,
  heartbeat_at timestamptz not null,
  finished_at  timestamptz
);
create index console_jobs_running on console_jobs (heartbeat_at) where state = 'running';
create index console_jobs_scope on console_jobs (scope_role, scope, created_at);
create index console_jobs_created on console_jobs (created_at);
