import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { SERVICE_NAMES, type ServiceName } from "../../services/platform/service.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { makeDebian, whyNoSystem } from "../support/debian-system.ts";
import { blocksOf } from "../support/deploy-readme.ts";
import {
  type Accounts,
  addAccounts,
  addCampaign,
  addCompany,
  dnsApiOf,
  mailApiOf,
  type RunningServices,
  runPalomar,
  startServices,
  zoneBody,
} from "../support/deployment.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { FailoverLoad, KINDS } from "../support/failover-load.ts";
import { Host } from "../support/host.ts";
import { makeNetwork, type Network } from "../support/network.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import { eventually } from "../support/stack.ts";

/** What the five machines have of Debian 13; Node is this machine's. */
const PACKAGES = [
  "postgresql-17",
  "etcd-server",
  "etcd-client",
  "patroni",
  "python3-etcd",
  "haproxy",
  "pgbouncer",
  "curl",
  "openssl",
];
const reason = whyNoSystem();
const why = reason === undefined ? "" : ` (skipped: ${reason})`;

const DATABASES = ["db1", "db2", "db3"];
const APPS = ["app1", "app2"];
const SERVICES = SERVICE_NAMES.filter((name) => name !== "sandbox");
const ZONE = "failover.test";
const DISK_OCTETS = 2 ** 30;
/** After whatever failure, what has to be written is acknowledged again within this time. */
const MOST_PAUSE_MS = 30_000;

const STEPS = blocksOf("A database that fails over").map((block) => block.replaceAll("sudo ", ""));

describe.skipIf(reason !== undefined)(`three databases behind Patroni, two machines with services${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-failover-"));
  const release = join(folder, "release");
  let network: Network;
  let sink: SmtpSink;
  let accounts: Accounts;
  let load: FailoverLoad;
  const hosts = new Map<string, Host>();
  const running = new Map<string, RunningServices>();
  const host = (name: string) => hosts.get(name)!;
  /** When something was out of order, and a message may come twice. */
  const faults: { readonly from: number; readonly to: number }[] = [];

  beforeAll(async () => {
    execFileSync("chmod", ["755", folder]);
    mountRelease();
    const system = makeDebian(PACKAGES);
    network = makeNetwork(DATABASES.length + APPS.length);
    const names = [...DATABASES, ...APPS];
    const addresses = new Map(names.map((name, number) => [name, network.machine(number).address]));
    for (const [number, name] of names.entries()) {
      const disk = DATABASES.includes(name) ? { disk: { path: "/var/lib/postgresql", octets: DISK_OCTETS } } : {};
      const places = { folder: join(folder, name), system, shared: [folder, process.execPath], release };
      hosts.set(name, new Host({ name, machine: network.machine(number), names: addresses, ...places, ...disk }));
      await host(name).powerOn();
    }
    sink = await startSmtpSink({ host: network.own });
    host("app1").must(STEPS[0]!);
    for (const name of DATABASES) {
      host(name).must(`mkdir -p /var/lib/postgresql/17 && chown -R postgres: /var/lib/postgresql\n${STEPS[1]!}`);
      startDatabase(name);
    }
    for (const name of APPS) {
      host(name).must(STEPS[2]!);
      startProxies(name);
    }
    await untilHealthy(120_000);
    expect(
      await runPalomar(
        ["migrate", "--roles", join(packageFolder, "secrets")],
        ownersEnvironment(),
        host("app1").wrapper,
      ),
    ).toMatchObject({ status: 0 });
    accounts = await addAccounts(ownersEnvironment(), "acme", host("app1").wrapper);
    await Promise.all(APPS.flatMap((app) => SERVICES.map((service) => startService(app, service))));
    load = new FailoverLoad(await makeTarget());
    await goesOn();
  }, 400_000);

  afterAll(async () => {
    await load?.stop();
    for (const one of hosts.values()) {
      await one.powerOff();
      one.remove();
    }
    await sink?.close();
    network?.remove();
    spawnSync("umount", ["--lazy", release]);
    rmSync(folder, { recursive: true, force: true });
  });

  /** What is written below the package's folder, such as secrets/, stays the test's. */
  function mountRelease(): void {
    const parts = Object.fromEntries(["upper", "work"].map((name) => [`${name}dir`, join(folder, `release-${name}`)]));
    for (const place of [release, ...Object.values(parts)]) mkdirSync(place);
    const options = Object.entries({ lowerdir: packageFolder, ...parts }).map((pair) => pair.join("="));
    execFileSync("mount", ["-t", "overlay", "-o", options.join(","), "overlay", release]);
  }

  /** As the units of Debian's packages start them. */
  function startDatabase(name: string): void {
    host(name).must("install -d -o etcd -g etcd /var/lib/etcd && install -d -o postgres -g postgres /run/postgresql");
    host(name).start("etcd", "etcd", ". /etc/default/etcd; ETCD_DATA_DIR=/var/lib/etcd/default exec etcd");
    host(name).start("watch-disk", "postgres", ". /etc/patroni_env.conf; exec /etc/patroni/watch-disk");
    host(name).start("patroni", "postgres", ". /etc/patroni_env.conf; exec patroni /etc/patroni/config.yml");
  }

  function startProxies(name: string): void {
    host(name).start("haproxy", "root", "exec haproxy -W -f /etc/haproxy/haproxy.cfg");
    host(name).start("pgbouncer", "postgres", "exec pgbouncer /etc/pgbouncer/pgbouncer.ini");
  }

  const secret = (name: string) => join(packageFolder, "secrets", name);

  function ownersEnvironment() {
    return {
      DATABASE_URL_FILE: secret("database_url"),
      PALOMAR_LISTEN_DATABASE_URL_FILE: secret("listen_database_url"),
      PALOMAR_SECRET_FILE: secret("palomar_secret"),
      PALOMAR_DATA_DIR: join(folder, "owner"),
    };
  }

  async function startService(app: string, service: ServiceName): Promise<void> {
    const { address } = host(app).machine;
    const suffix = service.replaceAll("-", "_");
    const listen = (name: string, port: number) => ({ [`PALOMAR_${name}_LISTEN`]: `${address}:${port}` });
    const environment = {
      DATABASE_URL_FILE: secret(`database_url_${suffix}`),
      PALOMAR_LISTEN_DATABASE_URL_FILE: secret(`listen_database_url_${suffix}`),
      PALOMAR_KEYS_FILE: secret(`keys_${suffix}`),
      PALOMAR_NODE: `${app}-${service}`,
      PALOMAR_DATA_DIR: join(folder, app, "data", service),
      PALOMAR_DELIVERY: `smtp://${sink.address}`,
      PALOMAR_RETRY_SECONDS: "1",
      PALOMAR_SENDER_DOMAIN_CHECK: "false",
      // A third of this load comes back, which is no sender to be let go on.
      PALOMAR_GUARD: "off",
      PALOMAR_TRACKING_URL: "http://touch.test",
      PALOMAR_DNS_WORKERS: "1",
      ...listen("DNS", 5300),
      ...listen("DNS_API", 8053),
      ...listen("MAIL_API", 8025),
      ...listen("TRACKING", 8026),
      ...listen("SUBMISSION", 2587),
      ...listen("MX", 2525),
    };
    mkdirSync(environment.PALOMAR_DATA_DIR, { recursive: true });
    running.set(environment.PALOMAR_NODE, await startServices([service], environment, host(app).wrapper));
  }

  /** As `systemctl stop` does it: SIGTERM, and no more before it has ended. */
  async function stopService(app: string, service: ServiceName): Promise<void> {
    const { process: wrapper } = running.get(`${app}-${service}`)!;
    process.kill(-wrapper.pid!, "SIGTERM");
    await once(wrapper, "close");
  }

  async function makeTarget() {
    const addresses = APPS.map((name) => host(name).machine.address);
    const dnsApi = dnsApiOf(`http://${addresses[0]}:8053`, accounts);
    const mailApi = mailApiOf(`http://${addresses[0]}:8025`, accounts);
    await addCompany(dnsApi);
    await dnsApi("POST", `/master_zone/${ZONE}`, zoneBody(ZONE));
    await dnsApi("POST", `/rr/${ZONE}`, { name: "stable", type: "A", value: "192.0.2.1" });
    const sender = "news@acme.test";
    const numid = await addCampaign(mailApi, sender);
    const { body } = await mailApi("GET", `/campania_apikey?numid=${numid}`);
    for (const address of addresses) {
      await eventually(
        () => askDns(`${address}:5300`, `stable.${ZONE}`, "A"),
        (answer) => dataOf(answer)[0] === "192.0.2.1",
      );
    }
    return { addresses, accounts, campaign: { numid, apikey: body.camp_apikey }, sender, zone: ZONE, sink };
  }

  interface Member {
    readonly name: string;
    readonly role: string;
    readonly state: string;
  }

  /** What the first machine that answers says of all; nothing where none does. */
  async function members(): Promise<readonly Member[]> {
    for (const name of DATABASES) {
      const answer = await fetch(`http://${host(name).machine.address}:8008/cluster`, {
        signal: AbortSignal.timeout(1_000),
      })
        .then((response) => response.json() as Promise<{ members: Member[] }>)
        .catch(() => undefined);
      if (answer !== undefined) return answer.members;
    }
    return [];
  }

  /** Three: the primary and two standbys that follow it, one of them synchronously. */
  async function untilHealthy(timeoutMs = 90_000): Promise<void> {
    await eventually(
      members,
      (all) =>
        all.length === DATABASES.length &&
        all.every(({ role, state }) => state === (role === "leader" ? "running" : "streaming")) &&
        ["leader", "sync_standby"].every((role) => all.some((member) => member.role === role)),
      timeoutMs,
    );
  }

  const leader = async () =>
    (await eventually(
      async () => (await members()).find(({ role }) => role === "leader"),
      (found) => found !== undefined,
    ))!.name;

  /** Everything is acknowledged, again and again, from now on. */
  async function goesOn(): Promise<void> {
    const counts = () => KINDS.map((kind) => load.acknowledged[kind].length);
    const before = counts();
    await eventually(
      async () => counts(),
      (now) => now.every((count, index) => count >= before[index]! + 3),
      90_000,
    );
  }

  /** Does it under load. @param over what has to be so before things count as going on again */
  async function during(
    name: string,
    fault: () => unknown,
    over: () => Promise<unknown> = async () => {},
  ): Promise<void> {
    const from = Date.now();
    await fault();
    await over();
    await goesOn();
    faults.push({ from, to: Date.now() });
    const pauses = load.longestPauses(from);
    process.stdout.write(`${name}: longest pauses ${JSON.stringify(pauses)}\n`);
    for (const kind of KINDS) expect(pauses[kind], `${kind} after: ${name}`).toBeLessThan(MOST_PAUSE_MS);
    expect(load.wrong).toEqual([]);
  }

  const another = (than: string) => () => eventually(leader, (name) => name !== than);

  it("the primary's PostgreSQL is killed", async () => {
    const primary = await leader();
    await during(
      "PostgreSQL killed",
      () => host(primary).must("kill -9 $(head -n 1 /var/lib/postgresql/17/palomar/postmaster.pid)"),
      another(primary),
    );
    await untilHealthy();
  });

  it("the primary's machine loses its power", async () => {
    const primary = await leader();
    await during("power cut", () => host(primary).powerOff(), another(primary));
    await host(primary).powerOn();
    startDatabase(primary);
    await untilHealthy();
  });

  it("the primary is cut off", async () => {
    const primary = await leader();
    const { machine } = host(primary);
    await during("cut off", () => machine.setLink(false), another(primary)).finally(() => machine.setLink(true));
    await untilHealthy();
  });

  it("a member of etcd is killed", async () => {
    await during("etcd killed", () => host("db1").kill("etcd"));
    host("db1").start("etcd", "etcd", ". /etc/default/etcd; ETCD_DATA_DIR=/var/lib/etcd/default exec etcd");
    await untilHealthy();
  });

  it("the primary is changed on purpose", async () => {
    const primary = await leader();
    await during(
      "switchover",
      () =>
        host(primary).must(
          `set -a; . /etc/patroni_env.conf; patronictl -c /etc/patroni/config.yml switchover --leader ${primary} --force`,
        ),
      another(primary),
    );
    await untilHealthy();
  });

  it("a PgBouncer is restarted", async () => {
    await during("PgBouncer restarted", async () => {
      await host("app1").kill("pgbouncer");
      host("app1").start("pgbouncer", "postgres", "exec pgbouncer /etc/pgbouncer/pgbouncer.ini");
    });
  });

  it("the primary's disk is full", async () => {
    const primary = await leader();
    const filler = "/var/lib/postgresql/filler";
    await during(
      "disk full",
      () =>
        host(primary).must(
          // PostgreSQL may write between the two.
          `for _ in $(seq 20); do
             fallocate --length $(df --output=avail --block-size=1 /var/lib/postgresql | tail -n 1) ${filler} && exit 0
           done; exit 1`,
        ),
      another(primary),
    );
    host(primary).must(`rm ${filler}`);
    await untilHealthy();
  });

  it("another release comes in: the database is migrated, and every service restarted, one after another", async () => {
    writeFileSync(join(release, "migrations/9000-notes.sql"), LATER);
    await during("upgrade", async () => {
      const environment = { ...ownersEnvironment(), PALOMAR_LOG_LEVEL: "warn" };
      expect(await runPalomar(["migrate", "--roles", secret("")], environment, host("app1").wrapper)).toMatchObject({
        status: 0,
        stdout: expect.stringContaining("9000-notes.sql"),
      });
      for (const app of APPS) {
        for (const service of SERVICES) {
          await stopService(app, service);
          await startService(app, service);
        }
      }
    });
  });

  it("nothing that was acknowledged is lost, and nothing came twice but while something was out of order", async () => {
    await load.stop();
    for (const app of APPS) {
      for (const name of load.acknowledged.change) {
        const ask = () => askDns(`${host(app).machine.address}:5300`, `${name}.${ZONE}`, "A");
        await eventually(ask, (answer) => dataOf(answer)[0] === "192.0.2.2");
      }
    }
    const expected = [...load.acknowledged.send, ...load.acknowledged.submission];
    const missing = () => {
      const arrived = new Set(sink.messages.map(({ rcptTo }) => rcptTo[0]));
      return expected.filter((email) => !arrived.has(email));
    };
    await eventually(
      async () => missing(),
      ({ length }) => length === 0,
      120_000,
    );
    const database = new pg.Client({ connectionString: await primaryUrl() });
    await database.connect();
    const having = async (kind: keyof typeof EVENT_KINDS) => {
      const { rows } = await database.query(
        "select contacts.email from events join contacts on contacts.id = contact_id where kind = $1",
        [EVENT_KINDS[kind]],
      );
      return new Set(rows.map(({ email }) => email));
    };
    for (const [kind, event] of [
      ["bounce", "hard-bounce"],
      ["click", "clicked"],
    ] as const) {
      await eventually(
        async () => {
          const noted = await having(event);
          return load.acknowledged[kind].filter((email) => !noted.has(email));
        },
        ({ length }) => length === 0,
        60_000,
      );
    }
    await database.end();
    const counts = Object.fromEntries(KINDS.map((kind) => [kind, load.acknowledged[kind].length]));
    const first = new Map<string, number>();
    const twice = sink.messages.flatMap(({ rcptTo: [email] }, index) => {
      const before = first.get(email!);
      first.set(email!, before ?? index);
      return before === undefined ? [] : [load.arrivals[before]!];
    });
    process.stdout.write(`acknowledged ${JSON.stringify(counts)}; ${twice.length} messages came twice\n`);
    for (const at of twice) expect(faults.some(({ from, to }) => at > from - 5_000 && at < to)).toBe(true);
    expect(load.wrong).toEqual([]);
  });

  async function primaryUrl(): Promise<string> {
    const url = new URL(readFileSync(join(release, "secrets/database_url"), "utf8").trim());
    url.host = `${host(await leader()).machine.address}:5432`;
    return url.href;
  }
});

/** What a later release changes beside the running one. */
const LATER = `-- When somebody was noted.
alter table contacts add column noted_at timestamptz;
`;
