import { Gauge } from "prom-client";
import { registry } from "../platform/observability/metrics.ts";
import type { Db } from "../platform/postgres/db.ts";
import { countInbound } from "../store/mail/inbound/quarantine.ts";

/**
 * Shows how many messages that came back still wait, and how many are in quarantine.
 * @returns takes them off again
 */
export function exportInboundCounts(db: Db): () => void {
  new Gauge({
    name: "palomar_inbound_messages",
    help: "Messages that came back and are not applied, by state",
    labelNames: ["state"],
    registers: [registry],
    // Every bounce service counts the same rows.
    aggregator: "max",
    async collect() {
      const counts = await countInbound(db).catch(() => undefined);
      // With the database away nothing is known, and nothing is said.
      if (counts === undefined) return this.reset();
      this.set({ state: "waiting" }, counts.waiting);
      this.set({ state: "quarantined" }, counts.quarantined);
    },
  });
  return () => registry.removeSingleMetric("palomar_inbound_messages");
}
