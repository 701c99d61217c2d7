import { randomUUID } from "node:crypto";
import { Counter } from "prom-client";
import { checkDomain, findDomain } from "../operations/mail/domain-check.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import { registry } from "../platform/observability/metrics.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { type DomainUpkeep, leaseDueDomains, postponeDomain } from "../store/mail/instances/domain-upkeep.ts";
import type { ConsoleContext } from "./context.ts";
import { makeWriteZone } from "./write-zone.ts";

const EVERY_MS = 5_000;
/** A look that takes longer is over: somebody else takes the domain. */
const LEASE_SECONDS = 120;
const DOMAINS_AT_A_TIME = 8;
const AFTER_FAILURE_MS = 300_000;
/** Who is named in the history of zones. */
export const UPKEEP_ACTOR = "domain-upkeep";

const checks = new Counter({
  name: "palomar_sender_domain_checks_total",
  help: "Looks at what sender domains publish, by what they found",
  labelNames: ["result"],
  registers: [registry],
});
const keyChanges = new Counter({
  name: "palomar_dkim_key_changes_total",
  help: "DKIM keys that took over from others, or were taken away after they had",
  labelNames: ["change"],
  registers: [registry],
});

/**
 * Looks at every sender domain once an hour, and more often while its keys change. Any number of processes share the
 * domains; what one that died held goes to others when its lease ends.
 */
export function startDomainUpkeep(
  context: Pick<ConsoleContext, "db" | "keyRing" | "config" | "clock" | "observe" | "addressOf" | "openLook">,
): RepeatedWork {
  const { db, clock, observe } = context;
  const workerId = randomUUID();
  const surroundings = { ...context, write: makeWriteZone(context, UPKEEP_ACTOR) };
  return new RepeatedWork({
    take: async (signal) => {
      const now = new Date(clock.nowMs());
      const lease = { now, seconds: LEASE_SECONDS, limit: DOMAINS_AT_A_TIME };
      const due = await leaseDueDomains(db, workerId, lease);
      await fewAtOnce(due, { pieces: DOMAINS_AT_A_TIME }, (upkeep) => look(upkeep, now));
      return due.length === DOMAINS_AT_A_TIME && !signal.aborted ? 0 : EVERY_MS;
    },
    failed: (err) => {
      observe({ kind: "domain-upkeep-failed", level: "warn", err });
      return EVERY_MS;
    },
  });

  async function look(upkeep: DomainUpkeep, now: Date): Promise<void> {
    const { domain, instanceId } = upkeep;
    try {
      const found = await findDomain(db, instanceId, domain);
      // Taken away since it was leased.
      if (found === undefined) return;
      const { checks: items, tookOver, removed } = await checkDomain(surroundings, found.own, { upkeep, now });
      checks.inc({ result: items.every(({ action }) => action === "keep") ? "right" : "differs" });
      for (const selector of tookOver) observe({ kind: "dkim-key-took-over", domain, instanceId, selector });
      for (const selector of removed) observe({ kind: "dkim-key-removed", domain, instanceId, selector });
      keyChanges.inc({ change: "took-over" }, tookOver.length);
      keyChanges.inc({ change: "removed" }, removed.length);
    } catch (err) {
      checks.inc({ result: "failed" });
      observe({ kind: "domain-check-failed", level: "warn", domain, instanceId, err });
      await postponeDomain(db, upkeep, new Date(now.getTime() + AFTER_FAILURE_MS));
    }
  }
}
