-- A feed says the last place that it gave. Where events were erased while they were given places it said less, and gave none any more.
update event_feeds f set position = given.last
from (select instance_id, max(position) as last from webhook_events group by instance_id) given
where f.instance_id = given.instance_id and given.last > f.position;
