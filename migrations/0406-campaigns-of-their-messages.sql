-- A campaign of type normal has the sender, subject and URL of its message (saveCampaignMessage), also where that was written before.
update campaigns c
set sender = s.sender, sender_name = s.sender_name, subject = s.subject, url = coalesce(s.url, c.url)
from campaign_sends s
where s.instance_id = c.instance_id and s.campaign_numid = c.numid and c.type = 'normal';
