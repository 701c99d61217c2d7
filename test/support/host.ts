import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { atExit } from "./at-exit.ts";
import type { Wrapper } from "./deployment.ts";
import type { Machine } from "./network.ts";
import { ended } from "./stack.ts";

/** What a host is made of. */
export interface HostPlan {
  readonly name: string;
  readonly machine: Machine;
  /** What it has installed (`makeDebian`). */
  readonly system: string;
  /** Where it keeps what it writes. */
  readonly folder: string;
  /** Folders and files that it has at the same places as this machine. */
  readonly shared: readonly string[];
  /** Names and addresses of all hosts, as in /etc/hosts. */
  readonly names: ReadonlyMap<string, string>;
  /** The installed release of ours: every path below the package's folder is one below this. */
  readonly release: string;
  /** A disk of its own, of so many octets, at this path. */
  readonly disk?: { readonly path: string; readonly octets: number };
}

/**
 * A machine of a network with a name, processes and a system of its own, where programs of Debian packages run with their
 * files in the usual places. What it writes stays when its power is cut.
 */
export class Host {
  readonly name: string;
  readonly machine: Machine;
  readonly #plan: HostPlan;
  readonly #daemons = new Map<string, ChildProcess>();
  #first!: ChildProcess;

  constructor(plan: HostPlan) {
    this.#plan = plan;
    ({ name: this.name, machine: this.machine } = plan);
    const { folder, disk } = plan;
    for (const part of ["upper/etc", "work", "root"]) mkdirSync(join(folder, part), { recursive: true });
    if (disk === undefined) return;
    mkdirSync(join(folder, "disk"));
    must("mount", ["-t", "tmpfs", "-o", `size=${disk.octets},mode=0755`, this.name, join(folder, "disk")]);
    const unmount = atExit(() => this.remove());
    this.remove = () => {
      unmount();
      spawnSync("umount", ["--lazy", join(folder, "disk")]);
    };
  }

  /** Gives back what is not in its folder, once its power is off. */
  remove = (): void => {};

  async powerOn(): Promise<void> {
    const { system, folder, shared, disk, names, release } = this.#plan;
    const root = join(folder, "root");
    writeFileSync(
      join(folder, "upper/etc/hosts"),
      ["127.0.0.1 localhost", ...[...names].map(([name, address]) => `${address} ${name}`), ""].join("\n"),
    );
    const bound: readonly (readonly [string, string])[] = [
      ...["/dev", "/sys", ...shared].map((path) => [path, path] as const),
      [release, packageFolder],
      ...(disk === undefined ? [] : [[join(folder, "disk"), disk.path] as const]),
    ];
    const steps = [
      "set -e",
      "mount --make-rprivate /",
      `hostname ${this.name}`,
      `mount -t overlay -o lowerdir=${system},upperdir=${folder}/upper,workdir=${folder}/work overlay ${root}`,
      `mount -t proc proc ${root}/proc`,
      ...bound.map(([from, to]) => {
        const make = statSync(from).isDirectory() ? "mkdir -p" : "touch";
        return `${make} ${root}${to}; mount --rbind ${from} ${root}${to}`;
      }),
      "echo ready",
      // The first process takes those whose parents have ended.
      `exec chroot ${root} bash -c 'while :; do sleep 3600 & wait $!; done'`,
    ];
    const namespaces = ["--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc"];
    const [program, ...words] = [...this.machine.wrapper, "unshare", ...namespaces, "bash", "-c", steps.join("\n")];
    const first = spawn(program!, words, { stdio: ["ignore", "pipe", "inherit"] });
    first.once(
      "exit",
      atExit(() => first.kill("SIGKILL")),
    );
    this.#first = first;
    await new Promise<void>((resolve, reject) => {
      first.stdout.once("data", () => resolve());
      first.once("exit", (status) => reject(new Error(`${this.name} does not start: status ${status}`)));
    });
  }

  /** `kill -9` of all that runs on it, at once. */
  async powerOff(): Promise<void> {
    this.#first?.kill("SIGKILL");
    for (const child of [this.#first, ...this.#daemons.values()]) if (child !== undefined) await ended(child);
    this.#daemons.clear();
  }

  /** Runs a program on it. */
  get wrapper(): Wrapper {
    const namespaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--root", `--wdns=${packageFolder}`];
    return ["nsenter", `--target=${childOf(this.#first)}`, ...namespaces, "--"];
  }

  /**
   * Runs shell commands on it, in the release's folder.
   * @returns what they printed @throws with what they complained of
   */
  must(commands: string): string {
    const [program, ...words] = [...this.wrapper, "bash", "-euo", "pipefail", "-c", commands];
    return must(program!, words);
  }

  /** Starts a program in the foreground; what it says goes to `<folder>/<name>.log`. @param user who it runs as */
  start(name: string, user: string, command: string): void {
    const log = openSync(join(this.#plan.folder, `${name}.log`), "a");
    const become = user === "root" ? [] : ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--init-groups"];
    const [program, ...words] = [...this.wrapper, ...become, "bash", "-c", `set -a; ${command}`];
    this.#daemons.set(name, spawn(program!, words, { stdio: ["ignore", log, log] }));
  }

  /** `kill -9` of a program that was started, and of nothing that it has started. */
  async kill(name: string): Promise<void> {
    const daemon = this.#daemons.get(name)!;
    process.kill(childOf(daemon), "SIGKILL");
    await ended(daemon);
  }

  logOf(name: string): string {
    return readFileSync(join(this.#plan.folder, `${name}.log`), "utf8");
  }
}

/** @returns the process id, here, of the one that it has started in another namespace */
function childOf({ pid }: ChildProcess): number {
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return Number(child);
}

function must(program: string, words: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, words, { encoding: "utf8", maxBuffer: 2 ** 26 });
  if (status !== 0) throw new Error(`${words.slice(-1)}: status ${status}\n${stdout}${stderr}${error ?? ""}`);
  return stdout;
}
