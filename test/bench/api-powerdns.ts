import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openDb } from "../../services/platform/postgres/db.ts";
import { freePort } from "../support/peers-processes.ts";
import type { BenchRequest } from "./api-load.ts";

/** PowerDNS with its HTTP API over PostgreSQL. */
export interface PowerDns {
  readonly url: string;
  createZone(name: string): BenchRequest;
  createRecord(zone: string, host: string, address: string): BenchRequest;
  stop(): Promise<void>;
}

const SCHEMA = "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql";
const KEY = "bench";
const START_DEADLINE_MS = 20_000;

/** Starts it on a schema of its own in the same server; undefined where it is not installed. */
export async function startPowerDns(folder: string, databaseUrl: string): Promise<PowerDns | undefined> {
  if (spawnSync("pdns_server", ["--version"]).error) return undefined;
  const database = await makeDatabase(databaseUrl);
  const [dnsPort, apiPort] = [await freePort(), await freePort()];
  const child = spawn(
    "pdns_server",
    Object.entries({
      "config-dir": folder,
      "socket-dir": folder,
      launch: "gpgsql",
      "gpgsql-host": database.hostname,
      "gpgsql-port": database.port,
      "gpgsql-user": database.username,
      "gpgsql-password": database.password,
      "gpgsql-dbname": database.pathname.slice(1),
      "local-address": "127.0.0.1",
      "local-port": dnsPort,
      webserver: "yes",
      "webserver-port": apiPort,
      api: "yes",
      "api-key": KEY,
      loglevel: 3,
    }).map(([name, value]) => `--${name}=${value}`),
    { stdio: "ignore" },
  );
  const url = `http://127.0.0.1:${apiPort}`;
  await answers(`${url}/api/v1/servers`);
  const headers = { "X-API-Key": KEY, "Content-Type": "application/json" };
  return {
    url,
    createZone: (name) => ({
      method: "POST",
      path: "/api/v1/servers/localhost/zones",
      headers,
      body: JSON.stringify({ name: `${name}.`, kind: "Native", nameservers: ["ns1.example.net."] }),
    }),
    createRecord: (zone, host, address) => ({
      method: "PATCH",
      path: `/api/v1/servers/localhost/zones/${zone}.`,
      headers,
      body: JSON.stringify({
        rrsets: [
          {
            name: `${host}.${zone}.`,
            type: "A",
            ttl: 300,
            changetype: "REPLACE",
            records: [{ content: address, disabled: false }],
          },
        ],
      }),
    }),
    stop: async () => {
      child.kill();
      await once(child, "exit");
    },
  };
}

async function makeDatabase(databaseUrl: string): Promise<URL> {
  const server = openDb(databaseUrl, { connections: 1, name: "bench" });
  await server.raw("create database powerdns");
  await server.destroy();
  const url = new URL(databaseUrl);
  url.pathname = "/powerdns";
  const db = openDb(url.href, { connections: 1, name: "bench" });
  await db.raw(readFileSync(SCHEMA, "utf8"));
  await db.destroy();
  return url;
}

async function answers(url: string): Promise<void> {
  const deadline = Date.now() + START_DEADLINE_MS;
  for (;;) {
    const answered = await fetch(url, { headers: { "X-API-Key": KEY } }).catch(() => undefined);
    if (answered?.ok) return;
    if (Date.now() > deadline) throw new Error("PowerDNS does not answer");
    await sleep(100);
  }
}
