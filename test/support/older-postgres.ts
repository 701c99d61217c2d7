import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDb } from "../../services/platform/postgres/db.ts";
import { atExit } from "./at-exit.ts";
import { freePort } from "./peers-processes.ts";
import { ended, eventually } from "./stack.ts";

/** Where Debian keeps the oldest release that we work with. */
const PROGRAMS = "/usr/lib/postgresql/15/bin";
/** Debian's `nobody`: PostgreSQL does not run as root. */
const ACCOUNT = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

export const hasOlderPostgres = existsSync(join(PROGRAMS, "initdb"));

/** A PostgreSQL 15 of the machine's own, plain as its packages make it, with the superuser `postgres`. */
export async function startOlderPostgres(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-older-"));
  chmodSync(folder, 0o777);
  const data = join(folder, "data");
  const environment = { ...ACCOUNT, cwd: folder, env: { PATH: "/usr/bin:/bin", LC_ALL: "C" } };
  execFileSync(
    join(PROGRAMS, "initdb"),
    ["-D", data, "--username=postgres", "--encoding=UTF8", "--locale=C", "--auth=trust"],
    environment,
  );
  const port = await freePort();
  const settings = ["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories=", "fsync=off"];
  const server = spawn(join(PROGRAMS, "postgres"), ["-D", data, ...settings.flatMap((one) => ["-c", one])], {
    ...environment,
    stdio: "ignore",
  });
  server.once(
    "exit",
    atExit(() => server.kill("SIGQUIT")),
  );
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const db = openDb(url, { connections: 1, name: "test set-up" });
  await eventually(
    () => db.raw("select 1").catch(() => undefined),
    (answer) => answer !== undefined,
  );
  await db.destroy();
  return {
    url,
    stop: async () => {
      server.kill("SIGINT");
      await ended(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
