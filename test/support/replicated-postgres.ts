import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { locatePostgresBinaries } from "../../services/platform/postgres/embedded-postgres-binaries.ts";
import { atExit } from "./at-exit.ts";
import type { Machine, Network } from "./network.ts";
import { ended } from "./stack.ts";

/** Debian's `nobody`: PostgreSQL does not run as root. */
const ACCOUNT = { uid: 65_534, gid: 65_534 };
const PASSWORD = "known";

/** A primary and a standby that has confirmed whatever the primary has acknowledged. */
export interface ReplicatedPostgres {
  /** At the address that the primary of the moment has. */
  readonly url: string;
  /** Kills the primary as a power cut does, and makes the standby the primary at the same address. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

/** On two machines of a network; clients use its spare address, which moves with the primary. */
export async function startReplicatedPostgres(
  { spare: address, subnet }: Network,
  primary: Machine,
  standby: Machine,
): Promise<ReplicatedPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-replicated-"));
  chmodSync(folder, 0o777);
  const { initdb, postgres } = await locatePostgresBinaries(ACCOUNT, folder);
  const [first, second] = [join(folder, "first"), join(folder, "second")];
  writeFileSync(join(folder, "password"), PASSWORD);
  execFileSync(
    initdb,
    [
      "-D",
      first,
      "--username=palomar",
      "--encoding=UTF8",
      "--locale=C",
      "--auth=scram-sha-256",
      `--pwfile=${folder}/password`,
    ],
    {
      ...ACCOUNT,
      cwd: folder,
      env: { PATH: "/usr/bin:/bin" },
    },
  );
  appendFileSync(
    join(first, "pg_hba.conf"),
    `host all all ${subnet} scram-sha-256\nhost replication all ${subnet} scram-sha-256\n`,
  );
  const start = (machine: Machine, data: string, settings: readonly string[]) => {
    const [program, ...rest] = [
      ...machine.wrapper,
      "setpriv",
      "--reuid=65534",
      "--regid=65534",
      "--clear-groups",
      postgres,
    ];
    const child = spawn(
      program!,
      [
        ...rest,
        "-D",
        data,
        ...["listen_addresses=*", "unix_socket_directories=", "max_connections=200", ...settings].flatMap((one) => [
          "-c",
          one,
        ]),
      ],
      {
        cwd: folder,
        env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
        stdio: "ignore",
        detached: true,
      },
    );
    child.once(
      "exit",
      atExit(() => kill(child, "SIGKILL")),
    );
    return child;
  };

  primary.takeAddress(address);
  const url = `postgres://palomar:${PASSWORD}@${address}:5432/postgres`;
  // A copy of the cluster at rest is what the standby begins from.
  execFileSync("cp", ["-a", first, second]);
  writeFileSync(join(second, "standby.signal"), "");
  execFileSync("chown", [`${ACCOUNT.uid}:${ACCOUNT.gid}`, join(second, "standby.signal")]);
  let current = start(primary, first, ["synchronous_standby_names=*", "log_min_messages=fatal"]);
  await untilAnswering(url, "select 1");
  let other = start(standby, second, [
    "synchronous_standby_names=",
    "log_min_messages=fatal",
    `primary_conninfo=host=${address} user=palomar password=${PASSWORD} application_name=standby`,
  ]);
  await untilAnswering(url, "select 1 from pg_stat_replication where sync_state = 'sync'");
  return {
    url,
    failOver: async () => {
      kill(current, "SIGKILL");
      await ended(current);
      primary.dropAddress(address);
      await untilAnswering(
        url.replace(address, standby.address),
        "select pg_promote() as done where pg_is_in_recovery() or true",
      );
      standby.takeAddress(address);
      await untilAnswering(url, "select 1 where not pg_is_in_recovery()");
      [current, other] = [other, current];
    },
    stop: async () => {
      for (const child of [current, other]) {
        kill(child, "SIGINT");
        await Promise.race([ended(child), sleep(5_000)]);
        kill(child, "SIGKILL");
      }
      spawnSync("rm", ["-rf", folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Waits until the server answers a query with a row. */
async function untilAnswering(url: string, query: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on("error", () => {});
    try {
      await client.connect();
      if ((await client.query(query)).rows.length > 0) return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    } finally {
      await client.end().catch(() => {});
    }
    if (Date.now() > deadline) throw new Error(`${dirname(url)} never answered ${query}`);
    await sleep(100);
  }
}

/** The server with all of its backends, which a power cut would end as well. */
function kill(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (signal === "SIGKILL") process.kill(-child.pid, signal);
    else process.kill(child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
