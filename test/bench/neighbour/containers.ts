import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { packageFolder } from "../../../services/platform/package-folder.ts";

/** What docker-compose.yml gives a container. */
export interface Container {
  /** `mem_limit`, in octets. */
  readonly memoryOctets: number;
  /** `cpu_shares`: of processors that are all busy, in proportion to those of the others. */
  readonly cpuShares: number;
}

/** By the names of docker-compose.yml. */
export function readContainers(): Readonly<Record<string, Container>> {
  // The YAML reader that the linter brings.
  const { parse } = createRequire(createRequire(import.meta.url).resolve("dclint"))("yaml");
  const { services } = parse(readFileSync(join(packageFolder, "docker-compose.yml"), "utf8"), { merge: true });
  const entries = Object.entries(services as Record<string, { mem_limit: string; cpu_shares?: number }>);
  return Object.fromEntries(
    entries.map(([name, { mem_limit, cpu_shares = DEFAULT_SHARES }]) => [
      name,
      { memoryOctets: octetsOf(mem_limit), cpuShares: cpu_shares },
    ]),
  );
}

/** What a container has unless it is said. */
const DEFAULT_SHARES = 1024;
/** Linux's controller of processors, as control groups of the first version have it. */
const CONTROLLER = "/sys/fs/cgroup/cpu";
const PROCESSES = "cgroup.procs";

/** Groups of processes that share the processors as containers do; for a machine that has no engine for containers. */
export class ControlGroups {
  readonly #made = new Set<string>();

  /**
   * Puts processes, with all that they begin from then on, into a group.
   * @throws where this machine does not let us
   */
  put(processIds: readonly number[], name: string, cpuShares: number): void {
    const folder = join(CONTROLLER, `palomar-neighbour-${process.pid}-${name}`);
    mkdirSync(folder, { recursive: true });
    this.#made.add(folder);
    writeFileSync(join(folder, "cpu.shares"), String(cpuShares));
    for (const id of processIds) writeFileSync(join(folder, PROCESSES), String(id));
  }

  /** Removes them; who is still in one is in none then. */
  remove(): void {
    for (const folder of this.#made) {
      const left = readFileSync(join(folder, PROCESSES), "utf8").split("\n").filter(Boolean);
      for (const id of left) writeFileSync(join(CONTROLLER, PROCESSES), id);
      rmdirSync(folder);
    }
  }
}

/** A process and those that it has begun. */
export function withChildren(processId: number): number[] {
  const threads = readdirSync(`/proc/${processId}/task`);
  const children = threads.flatMap((thread) =>
    readFileSync(`/proc/${processId}/task/${thread}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  );
  return [processId, ...children.flatMap(withChildren)];
}

function octetsOf(limit: string): number {
  const [, count, unit] = /^(\d+)([mg])b?$/.exec(limit)!;
  return Number(count) * (unit === "g" ? 2 ** 30 : 2 ** 20);
}
