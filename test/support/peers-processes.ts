import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { accessSync, chmodSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";

/** A foreign server that runs for a test. */
export interface Peer {
  readonly port: number;
  readonly address: string;
  /** What it has said so far. */
  readonly log: () => string;
  /** Writes other files into its folder and has it read them (SIGHUP). */
  reload(files: PeerPlan["files"]): void;
  stop(): Promise<void>;
}

/** What it takes to run one. */
export interface PeerPlan {
  /** Files to write into the peer's folder, by name. */
  readonly files: Readonly<Record<string, string>>;
  /** Commands to run to their end before it starts. */
  readonly before?: readonly (readonly string[])[];
  /** The server itself, in the foreground. */
  readonly command: readonly string[];
}

/** Whether a program of this name is installed; found without one more process, which costs a large one tens of milliseconds. */
export function isInstalled(program: string): boolean {
  return PEER_PATH.split(delimiter).some((folder) => isExecutable(resolve(folder, program)));
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Why no program can have a resolver of its own here; empty: it can. */
export const ownResolverMissing =
  spawnSync("unshare", ["--mount", "true"]).status === 0 ? "" : "name spaces of mounts take root";

/** A command that asks the resolver of a file in place of the system's, which other programs go on with. */
export function withOwnResolver(file: string, command: readonly string[]): string[] {
  return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', file, ...command];
}

/** Debian keeps servers where users do not look. */
const PEER_PATH = `${process.env.PATH}:/usr/sbin:/sbin`;

/**
 * Starts a foreign server in a folder of its own, which goes with it.
 * @param port free for UDP and TCP
 */
export async function startPeer(
  name: string,
  port: number,
  plan: (folder: string, port: number) => PeerPlan,
): Promise<Peer> {
  const folder = mkdtempSync(join(tmpdir(), `palomar-peer-${name}-`));
  // Servers that drop their privileges write here as well.
  chmodSync(folder, 0o777);
  const { files, before = [], command } = plan(folder, port);
  const write = (some: PeerPlan["files"]) => {
    for (const [file, text] of Object.entries(some)) writeFileSync(join(folder, file), text);
  };
  write(files);
  let output = "";
  for (const [program, ...args] of before) {
    const run = spawnSync(program as string, args, { cwd: folder, env: { PATH: PEER_PATH }, encoding: "utf8" });
    output += `${program} ${args.join(" ")}: ${run.stdout}${run.stderr}\n`;
    if (run.status !== 0) throw new Error(`${name}: ${output}`);
  }
  const [program, ...args] = command;
  const child = spawn(program as string, args, { cwd: folder, env: { PATH: PEER_PATH } });
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
  return {
    port,
    address: `127.0.0.1:${port}`,
    log: () => output,
    reload: (some) => {
      write(some);
      child.kill("SIGHUP");
    },
    stop: async () => {
      await end(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const GRACE_MS = 3_000;

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  await ended;
  clearTimeout(late);
}

/** Below those that the system gives to whoever asks for any, such as every client's connection. */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_000;

/** A port that is free for UDP and TCP, and that no other test gets while this process lives. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST_PORT, LAST_PORT);
    if ((await isOurs(port)) && (await isFreeForTcp(port)) && (await isFreeForUdp(port))) return port;
  }
}

/** Whether nobody else had the name that stands for the port; Linux frees such names with the process that has them. */
function isOurs(port: number): Promise<boolean> {
  if (process.platform !== "linux") return Promise.resolve(true);
  const claim = createServer().unref();
  return new Promise((resolve) => {
    claim.once("error", () => resolve(false));
    claim.listen(`\0palomar-test-port-${port}`, () => resolve(true));
  });
}

function isFreeForTcp(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

function isFreeForUdp(port: number): Promise<boolean> {
  const socket = createSocket("udp4");
  return new Promise((resolve) => {
    socket.once("error", () => resolve(false));
    socket.bind(port, "127.0.0.1", () => socket.close(() => resolve(true)));
  });
}
