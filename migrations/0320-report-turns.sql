-- Reports to senders are told of one instance after the other, the oldest of each first.
create index delivery_reports_turn on delivery_reports (instance_id, due_at) where state = 'due';
