-- What a content filter said of batches before they were accepted. Those that it would refuse, and that came by API, are
-- held (batches.held_at) until somebody lets them go or takes them back.
create table content_verdicts (
  instance_id bigint           not null,
  eeid        uuid             not null,
  action      text             not null check (action in ('accept', 'mark', 'hold')),
  score       double precision, -- null: the filter was away
  symbols     jsonb            not null, -- what was found → what it adds to the score
  scanned_at  timestamptz      not null default now(),
  settled_at  timestamptz, -- when somebody let it go, or took it back
  settled_by  text,
  primary key (instance_id, eeid),
  foreign key (eeid, instance_id) references batches (eeid, instance_id) on delete cascade
);
create index content_verdicts_batch on content_verdicts (eeid);
create index content_verdicts_held on content_verdicts (instance_id, scanned_at) where action = 'hold' and settled_at is null;
