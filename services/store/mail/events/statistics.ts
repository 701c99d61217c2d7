import { type Db, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import type { Period } from "./event-counts.ts";
import { EVENT_KINDS } from "./event-kinds.ts";

/** What a chart of an instance, or of one of its campaigns, shows. */
interface StatisticsSelection extends Period {
  readonly instanceId: number;
  readonly campaignNumid?: number | undefined;
}

export type Step = "minute" | "hour" | "day";

/** Events within one step; what machines opened and clicked is counted apart. */
interface StatisticsPoint {
  readonly at: Date;
  readonly sent: number;
  readonly views: number;
  readonly clicks: number;
  /** Hard and soft ones. */
  readonly bounces: number;
  readonly machineViews: number;
  readonly machineClicks: number;
}

/** A `1 day` is one of the session's time zone, which has 23 or 25 hours where clocks are changed. */
const STEP_INTERVALS: Readonly<Record<Step, string>> = { minute: "1 minute", hour: "1 hour", day: "24 hours" };

/** Steps of a period in the order of time, empty ones included; steps are those of UTC. */
export async function readSeries(db: Db, selection: StatisticsSelection, step: Step): Promise<StatisticsPoint[]> {
  const { instanceId, campaignNumid, from, until } = selection;
  const values = new StatementValues(instanceId, step, from, until, STEP_INTERVALS[step]);
  const counts =
    campaignNumid === undefined
      ? INSTANCE_COUNTS
      : campaignCounts(await eventsOfCampaign(db, { instanceId, campaignNumid }, values));
  return queryRows<StatisticsPoint>(
    db,
    `select steps.at, coalesce(sent, 0)::int as sent, coalesce(views, 0)::int as views,
       coalesce(clicks, 0)::int as clicks, coalesce(bounces, 0)::int as bounces,
       coalesce(machine_views, 0)::int as "machineViews", coalesce(machine_clicks, 0)::int as "machineClicks"
     from generate_series(date_trunc($2, $3::timestamptz, 'UTC'), $4::timestamptz - interval '1 microsecond', $5::interval)
       as steps (at)
     left join (${counts}) as counts on counts.at = steps.at order by steps.at`,
    values.all,
  );
}

/** From the counts that every event is added to: its cost depends on the period alone. */
const INSTANCE_COUNTS = `
  select bucket as at, sum(sent) as sent, sum(viewed) as views, sum(clicked) as clicks,
      sum(hard_bounce + soft_bounce) as bounces, sum(machine_viewed) as machine_views,
      sum(machine_clicked) as machine_clicks
    from event_totals
   where instance_id = $1 and grain = $2 and bucket >= date_trunc($2, $3::timestamptz, 'UTC') and bucket < $4 group by 1`;

/** From the events of the campaign themselves. */
function campaignCounts({ tables, condition }: SelectedEvents): string {
  const { sent, viewed, clicked, "hard-bounce": hard, "soft-bounce": soft } = EVENT_KINDS;
  return `select date_trunc($2, events.at, 'UTC') as at, count(*) filter (where kind = ${sent}) as sent,
      count(*) filter (where kind = ${viewed} and not machine) as views,
      count(*) filter (where kind = ${clicked} and not machine) as clicks,
      count(*) filter (where kind in (${hard}, ${soft})) as bounces,
      count(*) filter (where kind = ${viewed} and machine) as machine_views,
      count(*) filter (where kind = ${clicked} and machine) as machine_clicks
    from ${tables} where ${condition} and events.at >= $3 and events.at < $4 group by 1`;
}

/** A part of all events, in SQL; `$1` is the instance's id. */
interface SelectedEvents {
  readonly tables: string;
  readonly condition: string;
}

/**
 * Events are found by the campaign's batches, whatever else the instance sends. Where batches of it are gone
 * (see message-retention.ts), all events of the period are looked through for those that the campaign left.
 */
async function eventsOfCampaign(
  db: Db,
  { instanceId, campaignNumid }: { readonly instanceId: number; readonly campaignNumid: number },
  values: StatementValues,
): Promise<SelectedEvents> {
  const numid = values.add(campaignNumid);
  const campaign = await db("campaigns").where({ instance_id: instanceId, numid: campaignNumid }).first("lost_batches");
  if (campaign?.lost_batches) {
    return { tables: "events", condition: `events.instance_id = $1 and events.campaign_numid = ${numid}` };
  }
  return {
    tables: "batches join events using (instance_id, eeid)",
    condition: `events.instance_id = $1 and batches.campaign_numid = ${numid} and events.campaign_numid = ${numid}`,
  };
}

type BounceGrouping = "reason" | "destination";

/** Bounces that have a reason, or a destination, in common. */
interface BounceGroup {
  readonly key: string;
  readonly hard: number;
  readonly soft: number;
}

const MOST_GROUPS = 1_000;

/** Bounces of a period by their reason or by the recipients' domain, those with the most first. */
export async function groupBounces(
  db: Db,
  { instanceId, campaignNumid, from, until }: StatisticsSelection,
  by: BounceGrouping,
): Promise<BounceGroup[]> {
  const { "hard-bounce": hard, "soft-bounce": soft } = EVENT_KINDS;
  const key =
    by === "reason"
      ? "coalesce(events.detail ->> 'reason', 'undefined')"
      : `lower(split_part(coalesce(
           (select email_key from contacts where contacts.instance_id = $1 and contacts.id = events.contact_id),
           events.email, ''), '@', 2))`;
  const values = new StatementValues(instanceId, from, until);
  const events: SelectedEvents =
    campaignNumid === undefined
      ? { tables: "events", condition: "events.instance_id = $1" }
      : await eventsOfCampaign(db, { instanceId, campaignNumid }, values);
  return queryRows<BounceGroup>(
    db,
    `select ${key} as key, (count(*) filter (where kind = ${hard}))::int as hard,
       (count(*) filter (where kind = ${soft}))::int as soft
     from ${events.tables}
     where ${events.condition} and events.kind in (${hard}, ${soft}) and events.at >= $2 and events.at < $3
     group by 1 order by count(*) desc, 1 limit ${MOST_GROUPS}`,
    values.all,
  );
}
