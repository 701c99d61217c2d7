import { spawnSync } from "node:child_process";
import { freePort, isInstalled, type Peer, startPeer } from "./peers-processes.ts";

export const hasPgBouncer = isInstalled("pgbouncer");

/** PgBouncer, in transaction mode unless said, with so few connections to the server that clients share each of them all the time. */
export async function startPgBouncer(
  databaseUrl: string,
  {
    mode = "transaction",
    servers = 4,
    isInTurn = true,
  }: { mode?: "session" | "transaction"; servers?: number; isInTurn?: boolean } = {},
): Promise<Peer & { readonly url: string }> {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  const name = pathname.slice(1);
  const peer = await startPeer("pgbouncer", await freePort(), (folder, ownPort) => ({
    files: {
      "pgbouncer.ini": [
        "[databases]",
        `${name} = host=${hostname} port=${port} dbname=${name}`,
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        `listen_port = ${ownPort}`,
        "unix_socket_dir =",
        "auth_type = scram-sha-256",
        `auth_file = ${folder}/users.txt`,
        `pool_mode = ${mode}`,
        `default_pool_size = ${servers}`,
        "max_client_conn = 500",
        `server_round_robin = ${isInTurn ? 1 : 0}`,
        "",
      ].join("\n"),
      "users.txt": `"${decodeURIComponent(username)}" "${decodeURIComponent(password)}"\n`,
    },
    before: [["chmod", "-R", "a+rX", folder]],
    // It refuses to be root's.
    command: ["pgbouncer", ...(process.getuid?.() === 0 ? ["-u", "nobody"] : []), `${folder}/pgbouncer.ini`],
  }));
  await untilListening(peer.port);
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${peer.port}`;
  return { ...peer, url: url.href };
}

async function untilListening(port: number): Promise<void> {
  const wait = `for i in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/${port}) 2>/dev/null && exit 0; sleep 0.1; done; exit 1`;
  if (spawnSync("bash", ["-c", wait]).status !== 0) throw new Error("PgBouncer does not listen");
}
