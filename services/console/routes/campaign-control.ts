import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { invalidField, missingField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { sentence } from "../../core/sentences.ts";
import {
  completeCancellation,
  pauseCampaign,
  requestCancellation,
  resumeCampaign,
} from "../../operations/mail/campaign-control.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { isBeforeStart, listCampaignSends, scheduleCampaign } from "../../store/mail/campaigns/campaign-sends.ts";
import { awaitQuiet } from "../../store/mail/queue/queue-stops.ts";
import { readBatchProgress } from "../../store/mail/sends/batches.ts";
import { type AdminCaller, areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import {
  asSeen,
  campaignJson,
  campaignParams,
  toCampaignJson,
  type VisibleCampaign,
  visibleNormalCampaign,
} from "./campaign-json.ts";

/** Longer than a worker's lease: by then even one that is cut off has stopped. */
const QUIET_DEADLINE_MS = 30_000;
const POLL_MS = 20;
const DAY_MS = 86_400_000;

/** Starting, pausing, resuming and cancelling campaigns of type `normal`. */
export const makeCampaignControlEndpoints: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  const control = (
    verb: "pause" | "resume" | "cancel",
    summary: string,
    act: (found: VisibleCampaign, login: string) => Promise<Refusal | undefined>,
  ): ConsoleEndpoint =>
    consoleEndpoint({
      method: "POST",
      path: `/instances/:name/campaigns/:numid/${verb}`,
      summary,
      authorise: areaOf("instance"),
      params: campaignParams,
      change: { action: `campaign.${verb}`, object: ({ params }) => String(params.numid) },
      reply: campaignJson,
      act: async ({ caller, params }) => controlled(db, caller, params, (found) => act(found, caller.login)),
    });
  return [
    startEndpoint(context),
    control(
      "pause",
      "Pause a campaign: answers once nothing more of it leaves",
      async ({ campaign, instance }, login) => {
        if (!(await pauseCampaign(db, campaign.numid, sentence("paused-by", { login }))))
          return problem("campaign-not-under-way");
        // Read now: before the pause it may have been about to start.
        const send = (await listCampaignSends(db, instance.id, [campaign.numid])).get(campaign.numid);
        if (send?.eeid) await awaitQuiet(db, { instanceId: instance.id, eeid: send.eeid }, QUIET_DEADLINE_MS);
        return undefined;
      },
    ),
    control("resume", "Let a paused campaign go on", async ({ campaign, send }) => {
      const { recipients, queued, hardBounces } = send?.eeid
        ? await readBatchProgress(db, send.instanceId, send.eeid)
        : NOTHING_YET;
      const judged = { tried: recipients - queued, bounced: hardBounces };
      return (await resumeCampaign(db, campaign.numid, judged)) ? undefined : problem("campaign-not-paused");
    }),
    control("cancel", "Cancel a campaign: answers once nothing more of it leaves", async ({ campaign }) => {
      if (!(await requestCancellation(db, campaign.numid))) return problem("campaign-over");
      await cancel(db, campaign.numid);
      return undefined;
    }),
  ];
};

function startEndpoint({ db, clock }: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/campaigns/:numid/start",
    summary: "Start a campaign, at once or at a moment",
    authorise: areaOf("instance"),
    params: campaignParams,
    fields: z.object({
      at: z.iso
        .datetime({ offset: true, error: "moment-form" })
        .optional()
        .meta({ description: "at most a day past, which is at once; absent: at once" }),
      modificado: asSeen.optional(),
    }),
    change: {
      action: "campaign.start",
      object: ({ params }) => String(params.numid),
      detail: ({ fields: { at } }) => ({ at: at ?? "now" }),
    },
    reply: campaignJson,
    act: ({ caller, params, fields: { at, modificado } }) =>
      controlled(db, caller, params, async ({ campaign, send }) => {
        const fault = at && judgeMoment(Date.parse(at), clock.nowMs());
        if (fault) return fault;
        if (send === undefined) return problem("campaign-not-written");
        if (send.groups.length + send.filters.length === 0) return missingField("grupos");
        const start = { at: at === undefined ? null : new Date(at), login: caller.login, asOf: modificado };
        if (await scheduleCampaign(db, campaign, start)) return undefined;
        return problem(isBeforeStart(send) ? "campaign-changed" : "campaign-started");
      }),
  });
}

const LATEST_MS = Date.parse("9999-12-31T23:59:59Z"); // what ISO 8601 can show with a year of four digits

/** A moment of the last day means at once: clocks and time zones differ, and people hesitate. */
function judgeMoment(atMs: number, nowMs: number): Refusal | undefined {
  if (atMs < nowMs - DAY_MS) return invalidField("at", "past");
  return atMs > LATEST_MS ? invalidField("at", "moment-form") : undefined;
}

const NOTHING_YET = { recipients: 0, queued: 0, hardBounces: 0 };

async function controlled(
  db: Db,
  caller: AdminCaller,
  params: { readonly name: string; readonly numid: number },
  act: (found: VisibleCampaign) => Promise<Refusal | undefined>,
): Promise<Result<z.infer<typeof campaignJson>, Refusal>> {
  const found = await visibleNormalCampaign(db, caller, params);
  if (!found.ok) return found;
  const refusal = await act(found.value);
  if (refusal) return refuse(refusal);
  const { campaign, instance } = found.value;
  const sends = await listCampaignSends(db, instance.id, [campaign.numid]);
  return ok(toCampaignJson(campaign, sends.get(campaign.numid)));
}

/** Should this process die meanwhile, a delivery node completes it. */
async function cancel(db: Db, campaignNumid: number): Promise<void> {
  const until = performance.now() + QUIET_DEADLINE_MS;
  while (!(await completeCancellation(db, campaignNumid)) && performance.now() < until) await sleep(POLL_MS);
}
