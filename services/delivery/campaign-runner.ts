import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { ok, type Result, refuse } from "../core/result.ts";
import { type Sentence, sentence } from "../core/sentences.ts";
import { campaignTemplate, completeCancellation, pauseCampaign } from "../operations/mail/campaign-control.ts";
import { beginCampaign, type CampaignStart, gatherPortion, pauseUnstarted } from "../operations/mail/campaign-start.ts";
import { type ContentScanner, composeForScan } from "../operations/mail/content-scan.ts";
import type { Selection } from "../operations/mail/judge-selection.ts";
import { permittedSender } from "../operations/mail/senders.ts";
import { keepGlobals } from "../operations/mail/template-globals.ts";
import type { Clock } from "../platform/clock.ts";
import { EachByItself } from "../platform/each-by-itself.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import { readCampaignText } from "../platform/lookups/campaign-text.ts";
import type { FetchSurroundings } from "../platform/lookups/pinned-agent.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { isSpread } from "../store/mail/by-instance.ts";
import {
  type CampaignUnderWay,
  claimDueCampaign,
  type DueCampaign,
  finishCampaigns,
  listCampaignsUnderWay,
  listCancellations,
  listOpenStates,
  settleHeld,
  withdrawCancelled,
} from "../store/mail/campaigns/campaign-runs.ts";
import { findFilters } from "../store/mail/contacts/filters.ts";
import { announceMail } from "../store/mail/queue/queue.ts";
import { readBatchProgress } from "../store/mail/sends/batches.ts";
import type { StoredTemplate } from "../store/mail/sends/messages.ts";
import { judgeBounces } from "./bounce-spike.ts";
import type { BounceSpikeRule } from "./policy.ts";

interface CampaignRunnerOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  readonly fetch: FetchSurroundings;
  readonly bounceSpike: BounceSpikeRule;
  readonly content: ContentScanner;
}

/** Starts that are prepared at the same time, each of another instance. */
const STARTS_AT_ONCE = 8;
const POLL_MS = 1_000;
/** The same where such a look asks every machine, and found nothing the last time. */
const RARE_POLL_MS = 10_000;
const AFTER_FAILURE_MS = 5_000;

type Found = "more" | "some" | "nothing";

/**
 * Starts campaigns when their time has come, queues their recipients, pauses them when too much bounces, and completes
 * cancellations. Any number of nodes run one side by side: each step is claimed in the database, and what a node that
 * died has left undone the next one does. A step that fails for one campaign is tried again later, and is nothing to the others.
 */
export class CampaignRunner {
  readonly #options: CampaignRunnerOptions;
  readonly #stop = new AbortController();
  #loops: readonly RepeatedWork[] = [];
  /** By step: one that fails keeps the campaign from no other. */
  readonly #settling = new EachByItself<string>((eeid, err) => this.#failed(err, { eeid }));
  readonly #cancelling = this.#eachCampaign();
  readonly #withdrawing = this.#eachCampaign();
  readonly #gathering = this.#eachCampaign();
  readonly #watching = this.#eachCampaign();
  readonly #finishing = this.#eachCampaign();
  /** Starts under way, by instance. */
  readonly #starts = new Map<number, Promise<void>>();
  /** The instance of the last start. */
  #startedLast = 0;
  /** What starts fetch is waited for side by side; the database has one of them at a time, which may be for millions. */
  readonly #beginning = new FairTurns({ atOnce: 1, perClient: 1 });

  constructor(options: CampaignRunnerOptions) {
    setMaxListeners(0, this.#stop.signal);
    this.#options = options;
  }

  /** What a start fetches comes from strangers in their own time: nothing else waits for it. */
  start(): void {
    this.#loops = [this.#repeat(() => this.#startDue()), this.#repeat(() => this.#look())];
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    await Promise.all(this.#starts.values());
  }

  #eachCampaign(): EachByItself<number> {
    return new EachByItself((campaign, err) => this.#failed(err, { campaign }));
  }

  #failed(err: unknown, of: { readonly campaign?: number; readonly eeid?: string } = {}): void {
    this.#options.observe({ kind: "campaigns-not-run", level: "error", err, ...of });
  }

  /** @param work what it found: more to do at once, something under way, or nothing */
  #repeat(work: () => Promise<Found>): RepeatedWork {
    return new RepeatedWork({
      take: async () => this.#restMs(await work()),
      failed: (error) => {
        this.#failed(error);
        return AFTER_FAILURE_MS;
      },
    });
  }

  /** With 0 the lanes of this process have their turn. */
  async #restMs(found: Found): Promise<number> {
    if (found === "more") return 0;
    return found === "nothing" && (await isSpread(this.#options.db)) ? RARE_POLL_MS : POLL_MS;
  }

  /** Begins a start where there is room for one, of instances in turn; else waits until one ends, or for the next look. */
  async #startDue(): Promise<Found> {
    const starts = this.#starts;
    const turn = { after: this.#startedLast, busy: [...starts.keys()] };
    const due = starts.size < STARTS_AT_ONCE ? await claimDueCampaign(this.#options.db, turn) : undefined;
    if (due !== undefined) {
      const { instanceId, campaignNumid: campaign } = due;
      this.#startedLast = instanceId;
      const start = this.#startCampaign(due).catch((error: unknown) => this.#failed(error, { campaign }));
      starts.set(
        instanceId,
        start.finally(() => starts.delete(instanceId)),
      );
    } else if (starts.size === 0) return "nothing";
    else {
      const nextLook = sleep(POLL_MS, undefined, { signal: this.#stop.signal }).catch(() => {});
      await Promise.race([...starts.values(), nextLook]);
    }
    return "more";
  }

  /** One portion of recipients a look: what they bounce is judged before the next ones follow. */
  async #look(): Promise<Found> {
    const { db } = this.#options;
    await settleHeld(db, this.#settling);
    const open = await listOpenStates(db);
    const cancellations = open.has("cancelling") ? await listCancellations(db) : [];
    for (const numid of cancellations) await this.#cancelling.attempt(numid, () => completeCancellation(db, numid));
    if (open.has("cancelled") || cancellations.length > 0) await withdrawCancelled(db, this.#withdrawing);
    const gathered = open.has("gathering") ? await gatherPortion(db, this.#gathering) : undefined;
    if (gathered !== undefined) await announceMail(db);
    const underWay = open.has("gathering") || open.has("sending") ? await listCampaignsUnderWay(db) : [];
    for (const campaign of underWay)
      await this.#watching.attempt(campaign.campaignNumid, () => this.#watchBounces(campaign));
    if (open.has("sending")) await finishCampaigns(db, this.#finishing);
    if (gathered !== undefined) return "more";
    return underWay.length + cancellations.length > 0 ? "some" : "nothing";
  }

  async #startCampaign(due: DueCampaign): Promise<void> {
    const { db, observe } = this.#options;
    const { campaignNumid, instanceId } = due;
    const start = await this.#prepare(due);
    // Its claim ends within a minute: then somebody begins anew.
    if (!start.ok && this.#stop.signal.aborted) return;
    const begun = start.ok
      ? await this.#beginning.run(String(instanceId), () => beginCampaign(db, due, start.value))
      : start;
    if (!begun.ok) {
      // Letting it go on tries again.
      if (!(await pauseUnstarted(db, due, begun.error))) return;
      observe({ kind: "campaign-not-started", level: "warn", campaign: campaignNumid, reason: begun.error.message });
    } else if (begun.value) {
      observe({ kind: "campaign-started", level: "info", campaign: campaignNumid });
    }
  }

  async #prepare(due: DueCampaign): Promise<Result<CampaignStart, Sentence>> {
    const { db, clock, fetch } = this.#options;
    const { signal } = this.#stop;
    const sender = await permittedSender(db, due.instanceId, due.sender);
    if (!sender.ok) return sender;
    const audience = await this.#readAudience(due);
    if (!audience.ok) return audience;
    const text = await readCampaignText(due, { ...fetch, signal });
    if (!text.ok) return text;
    const template = await keepGlobals(db, due.instanceId, campaignTemplate(due, due, text.value));
    if (!template.ok) return template;
    const held = await this.#judgeContent(template.value, due.creator);
    if (held !== undefined) return refuse(held);
    return ok({
      template: template.value,
      senderDomain: sender.value.asciiDomain,
      audience: audience.value,
      now: new Date(clock.nowMs()),
    });
  }

  /** @returns why a person has to look at it; undefined where nothing speaks against it */
  async #judgeContent(template: StoredTemplate, user: string): Promise<Sentence | undefined> {
    const { address } = template.from;
    const now = new Date(this.#options.clock.nowMs());
    const verdict = await this.#options.content.judge(async () => ({
      octets: await composeForScan({ kind: "template", template, attachments: [] }, address, now),
      ...{ mailFrom: address, recipients: [address], user, clientAddress: "" },
    }));
    if (verdict === undefined || verdict.action === "accept" || verdict.action === "mark") return undefined;
    const { scan } = verdict;
    return scan === undefined
      ? sentence("content-unseen")
      : sentence("content-judged", { score: scan.score.toFixed(1) });
  }

  async #readAudience({ instanceId, groups, filters }: DueCampaign): Promise<Result<Selection[], Sentence>> {
    const audience: Selection[] = groups.map((group) => ({ condition: { group } }));
    const known = await findFilters(this.#options.db, instanceId, filters);
    for (const id of filters) {
      const filter = known.get(id);
      if (filter === undefined) return refuse(sentence("filter-gone", { filter: id }));
      audience.push(filter);
    }
    return ok(audience);
  }

  async #watchBounces({ instanceId, campaignNumid, eeid, judged }: CampaignUnderWay): Promise<void> {
    const { db, bounceSpike, observe } = this.#options;
    const { recipients, queued, hardBounces } = await readBatchProgress(db, instanceId, eeid);
    const verdict = judgeBounces({ tried: recipients - queued, bounced: hardBounces }, judged, bounceSpike);
    if (verdict === undefined || !(await pauseCampaign(db, campaignNumid, verdict))) return;
    observe({ kind: "campaign-paused", level: "warn", campaign: campaignNumid, reason: verdict.message });
  }
}
