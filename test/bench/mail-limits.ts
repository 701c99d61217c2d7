import { setTimeout as sleep } from "node:timers/promises";
import type { LimitScope } from "../../services/core/mail/guard/sending-limits.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { removeSendingLimit, setSendingLimit } from "../../services/store/mail/guard/sending-limits.ts";
import type { ProcessorTime } from "./mail-processor-time.ts";
import { percentile } from "./percentile.ts";

const SCOPES: readonly LimitScope[] = ["instance", "campaign", "sender"];
/** Many and short ones: what PostgreSQL clears up now and then falls into a few of them. */
const ROUNDS = 30;
const UNREACHED = 1_000_000_000;

/** What a submitted message costs, without and with sending limits. */
export interface LimitsCost {
  readonly withoutMs: number;
  readonly withMs: number;
  /** Of each round. */
  readonly rounds: Readonly<Record<"without" | "with", readonly number[]>>;
}

/**
 * What limits by hour and day of the instance, its campaigns and its senders cost submission: rounds without and with them
 * by turns, in processor time of submission and PostgreSQL for a message. No worker is to run beside.
 * @param submit submits so many messages
 */
export async function measureLimits(
  db: Db,
  instanceId: number,
  { measured, messages }: { readonly measured: readonly ProcessorTime[]; readonly messages: number },
  submit: () => Promise<unknown>,
): Promise<LimitsCost> {
  const costs: Record<"without" | "with", number[]> = { without: [], with: [] };
  const seconds = () => measured.reduce((sum, read) => sum + (read() ?? 0), 0);
  const round = async (kind: "without" | "with") => {
    for (const scope of SCOPES) {
      const limit = { scope, subject: "" };
      if (kind === "without") await removeSendingLimit(db, instanceId, limit);
      else await setSendingLimit(db, instanceId, { ...limit, perHour: UNREACHED, perDay: UNREACHED, over: "refuse" });
    }
    const before = seconds();
    await submit();
    // What is written behind the answers counts as well.
    await sleep(200);
    costs[kind].push(((seconds() - before) * 1_000) / messages);
  };
  await round("without");
  costs.without.length = 0;
  for (let pair = 0; pair < ROUNDS; pair++) {
    const order = pair % 2 === 0 ? (["without", "with"] as const) : (["with", "without"] as const);
    for (const kind of order) await round(kind);
  }
  return { withoutMs: percentile(costs.without, 50), withMs: percentile(costs.with, 50), rounds: costs };
}
