import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { type EmbeddedPostgres, openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { atExit } from "../support/at-exit.ts";
import { addAccounts, addCompany, dnsApiOf, zoneBody } from "../support/deployment.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { freePort } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

interface Container {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly healthcheck: { readonly test: readonly string[]; readonly disable?: boolean };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly image: string;
  readonly secrets: readonly string[];
}

const { parse } = createRequire(createRequire(import.meta.url).resolve("dclint"))("yaml") as {
  parse(text: string, options: { merge: boolean }): { services: Record<string, Container> };
};
const { services } = parse(readFileSync(join(packageFolder, "docker-compose.yml"), "utf8"), { merge: true });
const own = Object.entries(services).filter(([, { image }]) => image === "palomar:local");

/** The secret that a container's `DATABASE_URL_FILE` names. */
const databaseUrlOf = (name: string) => basename(services[name]!.environment.DATABASE_URL_FILE!);

/** The user `node` of the image. */
const USER = 1000;
const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const why = isRoot ? "" : " (skipped unless run by root on Linux, who can be another user)";

// No container engine is at hand: the very commands, users, environments and order, as plain processes.
describe.skipIf(!isRoot)(`the containers of docker-compose.yml as processes${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-compose-"));
  const image = join(folder, "app");
  const ports = new Map<string, number>();
  const running = new Map<string, { readonly process: ChildProcess; readonly output: () => string }>();
  // A server of its own, since roles belong to all of a server's databases.
  let database: EmbeddedPostgres;

  beforeAll(async () => {
    chmodSync(folder, 0o755);
    makeImage(image);
    database = await openEmbeddedPostgres({ dataDir: join(folder, "database"), logger: makeLogger("test", "silent") });
    await makeSecrets();
    for (const [, { environment }] of own) for (const address of addressesIn(environment)) await portOf(address);
  });

  afterAll(async () => {
    for (const { process } of running.values()) process.kill("SIGTERM");
    await Promise.all([...running.values()].map(({ process }) => exitOf(process)));
    await database?.release();
    rmSync(folder, { recursive: true, force: true });
  });

  /** What the last stage of the Dockerfile copies, owned by another than who runs it. */
  function makeImage(into: string): void {
    mkdirSync(into);
    const [last] = readFileSync(join(packageFolder, "Dockerfile"), "utf8")
      .split(/^(?=FROM )/m)
      .reverse();
    const copied = [...last!.matchAll(/^COPY (?:--from=\w+ )?(?:\/app\/)?(.+) \S+$/gm)].flatMap(([, names]) =>
      names!.split(" "),
    );
    for (const name of copied) {
      if (name === "node_modules") symlinkSync(join(packageFolder, name), join(into, name));
      else cpSync(join(packageFolder, name), join(into, name), { recursive: true });
    }
  }

  const secretsOf = (name: string) => join(folder, `secrets-${name}`);

  /** What `deploy/prepare` makes, for this database, and of it what each container gets. */
  async function makeSecrets(): Promise<void> {
    const all = join(folder, "secrets");
    mkdirSync(all);
    writeFileSync(join(all, "database_url"), database.url);
    // Somebody's own choice stays, whatever is in it.
    writeFileSync(join(all, "database_url_bounce"), "postgres://palomar_bounce:o'ne%3F@database:5432/palomar");
    execFileSync(join(packageFolder, "deploy/prepare"), [all]);
    const { host, pathname } = new URL(database.url);
    for (const [name, { secrets }] of own) {
      mkdirSync(secretsOf(name));
      for (const secret of secrets) {
        const text = readFileSync(join(all, secret), "utf8").replace("database:5432/palomar", host + pathname);
        writeFileSync(join(secretsOf(name), secret), text);
      }
    }
  }

  function addressesIn(environment: Container["environment"]): string[] {
    return Object.entries(environment).flatMap(([name, value]) => (name.endsWith("_LISTEN") ? [value] : []));
  }

  /** Containers have networks of their own; here each port of each is another port of this machine. */
  async function portOf(address: string, container = ""): Promise<number> {
    const key = `${container} ${address.split(":")[1]}`;
    if (!ports.has(key)) ports.set(key, await freePort());
    return ports.get(key)!;
  }

  async function environmentOf(name: string): Promise<Record<string, string>> {
    const data = join(folder, `data-${name}`);
    mkdirSync(data, { recursive: true, mode: 0o700 });
    chownSync(data, USER, USER);
    const environment: Record<string, string> = { PATH: process.env.PATH!, NODE_ENV: "production" };
    for (const [key, given] of Object.entries(services[name]!.environment)) {
      const value = given.replace(/\$\{\w+:-([^}]*)\}/g, "$1").replace("/run/secrets", secretsOf(name));
      if (key === "PALOMAR_METRICS_LISTEN") environment[key] = `127.0.0.1:${await portOf(value, name)}`;
      else environment[key] = key.endsWith("_LISTEN") ? `127.0.0.1:${await portOf(value)}` : value;
    }
    return { ...environment, PALOMAR_DATA_DIR: data };
  }

  async function startContainer(name: string): Promise<void> {
    const command = services[name]!.command.map((word) => word.replace("/run/secrets", secretsOf(name)));
    const child = spawn(process.execPath, [join(image, "bin/palomar.mjs"), ...command], {
      cwd: image,
      env: await environmentOf(name),
      uid: USER,
      gid: USER,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.once(
      "exit",
      atExit(() => child.kill("SIGKILL")),
    );
    running.set(name, { process: child, output: () => output });
  }

  async function isHealthy(name: string): Promise<boolean> {
    const port = await portOf("0.0.0.0:9464", name);
    const [, program, ...args] = services[name]!.healthcheck.test.map((word) => word.replaceAll("9464", String(port)));
    const child = spawn(program!, args, { uid: USER, gid: USER, stdio: "ignore" });
    return (await exitOf(child)) === 0;
  }

  function exitOf(child: ChildProcess): Promise<number | null> {
    if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
    return new Promise((resolve) => child.once("exit", resolve));
  }

  it("the migration ends well, before anything else begins", async () => {
    await startContainer("migrate");
    const { process: child, output } = running.get("migrate")!;
    expect({ status: await exitOf(child), output: output() }).toEqual({
      status: 0,
      output: expect.stringContaining("applied 0010-accounts.sql"),
    });
    running.delete("migrate");
  });

  it("every service starts as an ordinary user, and its own health check finds it well", async () => {
    const names = own.map(([name]) => name).filter((name) => name !== "migrate");
    for (const name of names) {
      expect(services[name]!.depends_on).toEqual({ migrate: { condition: "service_completed_successfully" } });
      await startContainer(name);
    }
    for (const name of names) {
      await eventually(() => isHealthy(name), Boolean, 120_000).catch((error) => {
        throw new Error(`${name}: ${running.get(name)?.output()}`, { cause: error });
      });
    }
  });

  it("together they are a stack: a zone made in one is answered by another", async () => {
    const env = await environmentOf("console");
    const accounts = await addAccounts({ ...env, PALOMAR_DATA_DIR: folder });
    const dnsApi = dnsApiOf(`http://127.0.0.1:${await portOf("dns-api:8053")}`, accounts);
    await addCompany(dnsApi);
    expect((await dnsApi("POST", "/master_zone/compose.test", zoneBody("compose.test"))).status).toBe(200);
    expect((await dnsApi("POST", "/rr/compose.test", { name: "www", type: "A", value: "192.0.2.5" })).status).toBe(200);
    const dns = `127.0.0.1:${await portOf("dns-server:5300")}`;
    await eventually(
      () => askDns(dns, "www.compose.test", "A"),
      (answer) => dataOf(answer)[0] === "192.0.2.5",
    );
  });

  it("each container shows of the deployment what its role may know", async () => {
    const metricsOf = async (name: string) =>
      (await fetch(`http://127.0.0.1:${await portOf("0.0.0.0:9464", name)}/metrics`)).text();
    for (const [name, shown, hidden] of [
      ["delivery", "palomar_queue_ready_seconds 0", "palomar_zones{"],
      ["dns-server", 'palomar_zones{state="published"} ', "palomar_queue_recipients "],
    ] as const) {
      const metrics = await eventually(
        () => metricsOf(name),
        (text) => text.includes(`\n${shown}`),
      );
      expect(metrics).not.toContain(`\n${hidden}`);
    }
  });

  it("each service is its own role in the database, and reaches no more than that may", async () => {
    const ask = async (name: string, sql: string) => {
      const db = openDb(readFileSync(join(secretsOf(name), databaseUrlOf(name)), "utf8").trim(), {
        connections: 1,
        name: "test",
      });
      try {
        return await queryRows<Record<string, string>>(db, sql);
      } finally {
        await db.destroy();
      }
    };
    const running = own.map(([name]) => name).filter((name) => name !== "migrate");
    // Who has nothing to ask for a while keeps no connection.
    const connected = await eventually(
      () => ask("migrate", "select distinct usename from pg_stat_activity where usename ~ '^palomar_'"),
      ({ length }) => length === running.length,
    );
    expect(connected.map(({ usename }) => usename).sort()).toEqual(
      running.map((name) => `palomar_${name.replaceAll("-", "_")}`).sort(),
    );
    // Each is a node of its service's name.
    const nodes = await eventually(
      () => ask("console", "select node from nodes"),
      ({ length }) => length === running.length,
    );
    expect(nodes.map(({ node }) => node).sort()).toEqual([...running].sort());
    expect(await ask("dns-api", "select name from zones")).toEqual([{ name: "compose.test" }]);
    for (const [name, sql] of [
      ["mail-api", "select name from zones"],
      ["dns-api", "select email from contacts"],
      ["bounce", "select login from users"],
      ["console", "create table mine ()"],
    ] as const) {
      await expect(ask(name, sql), name).rejects.toMatchObject({ code: "42501" });
    }
  });

  it("all of them stop when they are asked to", async () => {
    for (const { process: child } of running.values()) child.kill("SIGTERM");
    for (const [name, { process: child }] of running)
      expect({ name, status: await exitOf(child) }).toEqual({ name, status: 0 });
  });
});
