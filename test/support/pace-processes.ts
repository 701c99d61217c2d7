/** Delivery workers in processes of their own, as a machine runs them, and dies with them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rolldown } from "rolldown";
import { database, stops } from "./delivery.ts";
import type { PaceWorkerPlan } from "./pace-worker.ts";

const PROGRAM = "dist/test/pace-worker.mjs";

/** To be called before the first of them starts. */
export async function bundlePaceWorker(): Promise<void> {
  const bundle = await rolldown({ input: "test/support/pace-worker.ts", platform: "node", external: /^[a-z@]/ });
  await bundle.write({ file: PROGRAM, format: "esm", codeSplitting: false });
}

/** Starts one on the test's database; it is stopped with the test. */
export function startPaceWorker(given: Omit<PaceWorkerPlan, "databaseUrl" | "secret">): ChildProcess {
  const plan: PaceWorkerPlan = { databaseUrl: database.url, secret: "a secret for tests only", ...given };
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(plan)], { stdio: ["ignore", "inherit", "inherit"] });
  const ended = once(child, "exit");
  stops.push(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  return child;
}
