import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { type DeploymentStatus, readStatus } from "../../store/status.ts";
import type { CommandRuntime } from "../runtime.ts";

const PATIENCE_MS = 3_000;

/** What the running stack says of itself. */
interface StackStatus {
  readonly running: boolean;
  readonly ready: boolean;
  readonly problems: readonly string[];
}

export function registerStatusCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("status")
    .description("what an operator must know, on one screen; exit status 1 when something is wrong")
    .action(async () => {
      const stack = await askStack(runtime.config.dataDir);
      const work = await runtime.withDatabase(({ db }) => readStatus(db));
      runtime.print({ stack, ...work }, compose(stack, work));
      if (!stack.ready || work.inbound.quarantined > 0) runtime.exitWith(1);
    });
}

async function askStack(dataDir: string): Promise<StackStatus> {
  const metrics = metricsAddress(dataDir);
  if (metrics === undefined) return { running: false, ready: false, problems: ["no stack runs on this data folder"] };
  try {
    const answer = await fetch(`${metrics}/readyz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
    const { problems } = (await answer.json()) as { problems: string[] };
    return { running: true, ready: answer.ok, problems };
  } catch (error) {
    const { message } = error as Error;
    return { running: false, ready: false, problems: [`the stack does not answer at ${metrics}: ${message}`] };
  }
}

function metricsAddress(dataDir: string): string | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, "addresses.json"), "utf8")).metrics ?? undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function compose({ ready, problems }: StackStatus, { zones, queue, inbound }: DeploymentStatus): string {
  const partitions = Object.entries(queue.partitions).map(([state, count]) => `${count} ${state}`);
  return [
    `stack    ${ready ? "ready" : problems.join("; ")}`,
    `zones    ${zones.published} published, ${zones.suspended} suspended`,
    `queue    ${queue.recipients} recipients, the oldest for ${queue.oldestSeconds} s`,
    `         partitions: ${partitions.join(", ") || "none"}; ${queue.backoffs} destinations left alone for now`,
    `inbound  ${inbound.waiting} waiting, ${inbound.quarantined} in quarantine`,
  ].join("\n");
}
