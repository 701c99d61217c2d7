-- MTA-STS that a sender domain has no more: its policy is served with mode none until its records are gone (RFC 8461 §8.3).
alter table domain_upkeep add column sts_ends_at timestamptz; -- when they may go; null: none is being withdrawn
