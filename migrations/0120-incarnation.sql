-- Which life of the database this is: a restore begins another (see services/store/incarnation.ts). A DNS server that
-- starts from a snapshot file compares versions of zones only within one life.
insert into deployment_facts (name, value) values ('incarnation', gen_random_uuid()::text) on conflict do nothing;
