/** A delivery worker in a process of its own: what it is to do comes as JSON in its first argument. */
import { KeyRing } from "../../services/core/key-ring.ts";
import { ok } from "../../services/core/result.ts";
import type { DeliveryPolicy } from "../../services/delivery/policy.ts";
import { openDb } from "../../services/platform/postgres/db.ts";
import { assembleWorker } from "./assemble-worker.ts";

export interface PaceWorkerPlan {
  readonly databaseUrl: string;
  readonly secret: string;
  /** Where all mail goes. */
  readonly port: number;
  readonly changes: Partial<DeliveryPolicy>;
  /** Milliseconds since the epoch from which on simulated time is faster, and how many times. */
  readonly epochMs: number;
  readonly timesFaster: number;
}

const plan = JSON.parse(process.argv[2]!) as PaceWorkerPlan;
const db = openDb(plan.databaseUrl, { connections: 6, name: "pace worker" });
const peers = [{ host: "127.0.0.1", port: plan.port, name: "localhost", tls: "never" as const }];
const worker = assembleWorker(async (destination) => ok({ key: destination, peers }), {
  db,
  keyRing: KeyRing.ofSecret(plan.secret),
  timeouts: { connectMs: 60_000, greetingMs: 60_000, commandMs: 60_000 },
  changes: plan.changes,
  waitSeconds: [2],
  observe: (observation) => {
    if (observation.level === "error")
      process.stderr.write(`${observation.kind} ${"err" in observation ? observation.err : ""}\n`);
  },
  paced: true,
  simulated: { epochMs: plan.epochMs, timesFaster: plan.timesFaster },
});
worker.start();
process.on("SIGTERM", () => {
  void worker.stop().then(() => db.destroy());
});
