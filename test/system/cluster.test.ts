import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { ServiceName } from "../../services/platform/service.ts";
import { readLife } from "../../services/store/incarnation.ts";
import type { ApiAnswer } from "../support/api-client.ts";
import {
  type Accounts,
  addAccounts,
  addCampaign,
  addCompany,
  dnsApiOf,
  mailApiOf,
  palomarJson,
  type RunningServices,
  runPalomar,
  sendTo,
  startServices,
  zoneBody,
} from "../support/deployment.ts";
import { askDns, askDnsTimes, dataOf, rcodeOf } from "../support/dns-client.ts";
import { type Machine, makeNetwork, type Network, whyNoNetwork } from "../support/network.ts";
import { type ReplicatedPostgres, startReplicatedPostgres } from "../support/replicated-postgres.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import { eventually } from "../support/stack.ts";

const why = whyNoNetwork === undefined ? "" : ` (skipped: ${whyNoNetwork})`;
const ZONE = "cluster.test";
const SLOW_DOMAIN = "slow.example.net";
const SLOW_RECIPIENTS = 100;
/** So that a worker is in the midst of a partition for longer than its lease lasts. */
const SLOW_MS = 400;

// Nine machines: two PostgreSQL, three name servers, two delivery workers, two API servers.
describe.skipIf(whyNoNetwork !== undefined)(`a cluster of nine machines${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-cluster-"));
  let network: Network;
  let database: ReplicatedPostgres;
  let sink: SmtpSink;
  let accounts: Accounts;
  let numid: number;
  let sinkDelayMs = SLOW_MS;
  const nodes = new Map<string, { readonly machine: Machine; services: RunningServices }>();
  const acknowledged = { hosts: [] as string[], emails: [] as string[] };
  const wrong: string[] = [];
  /** How often each name server has been asked under load. */
  const asked = new Map<string, number>();
  let load: { stop(): Promise<void> };

  beforeAll(async () => {
    network = makeNetwork(9);
    database = await startReplicatedPostgres(network, network.machine(0), network.machine(1));
    sink = await startSmtpSink({
      host: network.own,
      onRcptTo: ({ address }, _session, done) => {
        setTimeout(done, address.endsWith(`@${SLOW_DOMAIN}`) ? sinkDelayMs : 0);
      },
    });
    expect(await runPalomar(["migrate"], environment("migrate"))).toMatchObject({ status: 0 });
    accounts = await addAccounts(environment("accounts"));
    const plan: readonly (readonly [string, readonly ServiceName[]])[] = [
      ["dns1", ["dns-server"]],
      ["dns2", ["dns-server"]],
      ["dns3", ["dns-server"]],
      ["worker1", ["delivery"]],
      ["worker2", ["delivery"]],
      ["api1", ["dns-api", "mail-api"]],
      ["api2", ["dns-api", "mail-api"]],
    ];
    for (const [index, [name, services]] of plan.entries()) await startNode(name, network.machine(index + 2), services);
    await addCompany(dnsApi("api1"));
    expect((await dnsApi("api1")("POST", `/master_zone/${ZONE}`, zoneBody(ZONE))).status).toBe(200);
    expect(
      (await dnsApi("api2")("POST", `/rr/${ZONE}`, { name: "stable", type: "A", value: "192.0.2.1" })).status,
    ).toBe(200);
    numid = await addCampaign(mailApi("api1"), "news@acme.test");
    for (const name of ["dns1", "dns2", "dns3"]) {
      await eventually(
        () => askDns(dnsOf(name), `stable.${ZONE}`, "A"),
        (answer) => dataOf(answer)[0] === "192.0.2.1",
        60_000,
      );
    }
    load = startLoad();
  }, 400_000);

  afterAll(async () => {
    await load?.stop();
    await Promise.all([...nodes.values()].map(({ services }) => services.kill()));
    await sink?.close();
    await database?.stop();
    network?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  function environment(name: string, machine?: Machine) {
    const data = join(folder, name);
    const listen = (service: string, port: number) => ({
      [`PALOMAR_${service}_LISTEN`]: `${machine?.address ?? "127.0.0.1"}:${port}`,
    });
    return {
      DATABASE_URL: database.url,
      PALOMAR_SECRET: "a secret that only tests know",
      PALOMAR_DATA_DIR: data,
      PALOMAR_NODE: name,
      PALOMAR_DELIVERY: `smtp://${sink.address}`,
      PALOMAR_RETRY_SECONDS: "1",
      PALOMAR_SENDER_DOMAIN_CHECK: "false",
      PALOMAR_TRACKING_URL: "http://touch.test",
      PALOMAR_DNS_WORKERS: "1",
      PALOMAR_LOG_LEVEL: "warn",
      ...listen("DNS", 5300),
      ...listen("DNS_API", 8053),
      ...listen("MAIL_API", 8025),
      ...listen("METRICS", 9464),
    };
  }

  async function startNode(name: string, machine: Machine, names: readonly ServiceName[]): Promise<void> {
    const services = await startServices(names, environment(name, machine), machine.wrapper);
    nodes.set(name, { machine, services });
  }

  const machineOf = (name: string) => nodes.get(name)!.machine;
  const dnsOf = (name: string) => `${machineOf(name).address}:5300`;
  const dnsApi = (name: string) => dnsApiOf(`http://${machineOf(name).address}:8053`, accounts);
  const mailApi = (name: string) => mailApiOf(`http://${machineOf(name).address}:8025`, accounts);

  /** A customer asks the other API server when one does not answer; what nobody acknowledged may or may not be. */
  async function askEither(ask: (api: string) => Promise<ApiAnswer>, turn: number): Promise<ApiAnswer | undefined> {
    for (const api of turn % 2 === 0 ? ["api1", "api2"] : ["api2", "api1"]) {
      const answer = await Promise.race([ask(api).catch(() => undefined), sleep(5_000, undefined)]);
      if (answer?.status === 200) return answer;
    }
    return undefined;
  }

  function startLoad() {
    let stopped = false;
    const repeat = async (pauseMs: number, work: (turn: number) => Promise<void>) => {
      for (let turn = 0; !stopped; turn += 1) {
        await work(turn);
        await sleep(pauseMs);
      }
    };
    const work = [
      repeat(200, async (turn) => {
        const host = `h${turn}`;
        const added = await askEither(
          (api) => dnsApi(api)("POST", `/rr/${ZONE}`, { name: host, type: "A", value: "192.0.2.2" }),
          turn,
        );
        if (added) acknowledged.hosts.push(host);
      }),
      repeat(250, async (turn) => {
        const emails = [0, 1, 2].map((index) => `r${turn}-${index}@example.net`);
        const sent = await askEither(
          (api) =>
            sendTo(mailApi(api), numid, emails).then((answer) =>
              answer.body.sent === 3 ? answer : { ...answer, status: 500 },
            ),
          turn,
        );
        if (sent) acknowledged.emails.push(...emails);
      }),
      ...["dns1", "dns2", "dns3"].map((name) =>
        repeat(80, async (turn) => {
          asked.set(name, turn);
          const answer = await askDnsTimes(2, dnsOf(name), `stable.${ZONE}`, "A").catch(() => undefined);
          if (answer === undefined) wrong.push(`${name}: no answer`);
          else if (dataOf(answer)[0] !== "192.0.2.1") wrong.push(`${name}: ${rcodeOf(answer)}`);
        }),
      ),
    ];
    return {
      stop: async () => {
        stopped = true;
        await Promise.all(work);
      },
    };
  }

  /** Changes are acknowledged and mail arrives, both again from now on. */
  async function goesOn(): Promise<void> {
    const before = { hosts: acknowledged.hosts.length, messages: sink.messages.length };
    await eventually(
      async () => ({ hosts: acknowledged.hosts.length, messages: sink.messages.length }),
      ({ hosts, messages }) => hosts > before.hosts + 3 && messages > before.messages + 3,
      90_000,
    );
  }

  async function isCurrent(name: string): Promise<void> {
    const last = acknowledged.hosts.at(-1)!;
    await eventually(
      () => askDns(dnsOf(name), `${last}.${ZONE}`, "A"),
      (answer) => rcodeOf(answer) === "NOERROR" && dataOf(answer)[0] === "192.0.2.2",
      90_000,
    );
  }

  it("works, and every node says so", async () => {
    await goesOn();
    const { nodes: seen } = await palomarJson(["status"], environment("status")).catch(async () =>
      JSON.parse((await runPalomar(["status", "--json"], environment("status"))).stdout),
    );
    expect(seen.map(({ node }: { node: string }) => node).sort()).toEqual([...nodes.keys()].sort());
  });

  it("a name server that is cut off from the database answers on, and catches up", async () => {
    machineOf("dns1").setWay(network.spare, false);
    await goesOn();
    const during = acknowledged.hosts.at(-1)!;
    machineOf("dns1").setWay(network.spare, true);
    await isCurrent("dns1");
    expect(rcodeOf(await askDns(dnsOf("dns1"), `${during}.${ZONE}`, "A"))).toBe("NOERROR");
  });

  it("a name server that is started while it cannot reach the database answers from its snapshot", async () => {
    const { machine, services } = nodes.get("dns3")!;
    // Clients do not see this one while it is away.
    const before = wrong.length;
    await services.stop();
    machine.setWay(network.spare, false);
    await startNode("dns3", machine, ["dns-server"]);
    expect(dataOf(await askDns(dnsOf("dns3"), `stable.${ZONE}`, "A"))).toEqual(["192.0.2.1"]);
    machine.setWay(network.spare, true);
    await isCurrent("dns3");
    // Who began to ask while it was away, and waits still, may hear nothing.
    const turn = asked.get("dns3")!;
    await expect.poll(() => asked.get("dns3")).toBeGreaterThan(turn);
    const others = wrong.slice(before).filter((entry) => entry !== "dns3: no answer" && entry !== "dns3: SERVFAIL");
    expect(others).toEqual([]);
    wrong.length = before;
  });

  it("an API server that is killed is missed by nobody: the other takes its customers", async () => {
    const { machine, services } = nodes.get("api1")!;
    await services.kill();
    await goesOn();
    await startNode("api1", machine, ["dns-api", "mail-api"]);
  });

  it("a delivery worker that is cut off from the database while it sends gives its work to the other", async () => {
    const people = Array.from({ length: SLOW_RECIPIENTS }, (_, index) => `r${index}@${SLOW_DOMAIN}`);
    const slow = () => sink.messages.filter(({ rcptTo }) => rcptTo[0]?.endsWith(`@${SLOW_DOMAIN}`));
    expect((await sendTo(mailApi("api1"), numid, people)).body.sent).toBe(SLOW_RECIPIENTS);
    const [first] = await eventually(
      async () => slow(),
      ({ length }) => length > 2,
      60_000,
    );
    const addressOf = (name: string) => machineOf(name).address;
    const holder = ["worker1", "worker2"].find((name) => addressOf(name) === first!.client)!;
    const other = holder === "worker1" ? "worker2" : "worker1";
    const sentBy = (name: string) => slow().filter(({ client }) => client === addressOf(name)).length;
    machineOf(holder).setWay(network.spare, false);
    const noted = sentBy(holder);

    // It cannot know that nobody hears of it, and goes on until its lease may have ended; then the other begins.
    await eventually(
      async () => sentBy(other),
      (count) => count > 0,
      90_000,
    );
    const sentAlone = sentBy(holder) - noted;
    expect(sentAlone).toBeGreaterThan(0);
    sinkDelayMs = 0;
    await goesOn();
    await eventually(
      async () => new Set(slow().flatMap(({ rcptTo }) => rcptTo)).size,
      (count) => count === SLOW_RECIPIENTS,
      90_000,
    );
    expect(sentBy(holder) - noted, "nothing more once the other has it").toBe(sentAlone);
    machineOf(holder).setWay(network.spare, true);
    const twice = people
      .map((person) => slow().flatMap(({ rcptTo, client }) => (rcptTo[0] === person ? [client] : [])))
      .filter(({ length }) => length > 1);
    process.stdout.write(`${sentAlone} messages were sent and could not be noted, ${twice.length} came twice\n`);
    // Only what the one sent and could not note is sent again by the other, and once.
    for (const senders of twice) expect(senders).toEqual([holder, other].map(addressOf));
    expect(twice.length).toBeGreaterThanOrEqual(sentAlone);
  });

  it("the primary database dies under load, and the standby takes over", async () => {
    const before = await lifeOf(database);
    await database.failOver();
    await goesOn();
    // What versions were of the old primary alone: name servers do not trust them.
    expect(await lifeOf(database)).not.toBe(before);
    for (const name of ["dns1", "dns2", "dns3"]) await isCurrent(name);
  });

  it("in the end nothing that was acknowledged is lost, and no answer was wrong", async () => {
    await load.stop();
    for (const name of ["dns1", "dns2", "dns3"]) {
      await isCurrent(name);
      for (const host of acknowledged.hosts) {
        expect(dataOf(await askDns(dnsOf(name), `${host}.${ZONE}`, "A")), `${host} at ${name}`).toEqual(["192.0.2.2"]);
      }
    }
    const missing = () => {
      const arrived = new Set(sink.messages.flatMap(({ rcptTo }) => rcptTo));
      return acknowledged.emails.filter((email) => !arrived.has(email));
    };
    await eventually(
      async () => missing(),
      (left) => left.length === 0,
      120_000,
    );
    expect(acknowledged.hosts.length).toBeGreaterThan(50);
    expect(acknowledged.emails.length).toBeGreaterThan(50);
    expect(wrong).toEqual([]);
  });
});

async function lifeOf({ url }: ReplicatedPostgres): Promise<string> {
  const client = await openListenConnection(url, "test");
  try {
    return await readLife(client);
  } finally {
    await client.end();
  }
}
