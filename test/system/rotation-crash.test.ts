import { setTimeout as sleep } from "node:timers/promises";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeDnsResolver } from "../../services/platform/lookups/resolver-server.ts";
import { callApi } from "../support/api-client.ts";
import { addCampaign } from "../support/deployment.ts";
import { freePort } from "../support/peers-processes.ts";
import { type SmtpSink, type SunkMessage, startSmtpSink } from "../support/smtp-sink.ts";
import {
  eventually,
  killService,
  makeDataDir,
  removeDataDir,
  type StartedStack,
  serviceOf,
  startUsedStack,
} from "../support/stack.ts";
import { withStackDatabase } from "../support/stack-database.ts";

// Whatever of it is killed with `kill -9` in any step of a rotation: what leaves is signed with keys that are
// published, and all of it arrives.
const DOMAIN = "demo.example";
const PATH = `/instances/demo/domains/${DOMAIN}`;
const PATIENCE_MS = 240_000;
const EVERY_MS = 200;
/** Those that have a part in a rotation. */
const VICTIMS = ["console", "dns-api", "dns-server", "delivery"] as const;
const TRACKING = "http://touch.test";

const dataDir = makeDataDir();
let stack: StartedStack;
let sink: SmtpSink;
let dnsPort: number;
let campaign: number;
let kills = 0;

beforeAll(async () => {
  sink = await startSmtpSink();
  dnsPort = await freePort();
  const dns = `127.0.0.1:${dnsPort}`;
  const environment = {
    ...{ PALOMAR_DELIVERY: `smtp://${sink.address}`, PALOMAR_RETRY_SECONDS: "1,2,4", PALOMAR_TRACKING_URL: TRACKING },
    ...{ PALOMAR_DNS_LISTEN: dns, PALOMAR_RESOLVER: dns, PALOMAR_DOMAIN_CHECK: "resolver" },
    ...{ PALOMAR_BOUNCE_DOMAIN: "bounces.example.net", PALOMAR_SENDER_DOMAIN_CHECK: "false" },
  };
  stack = await startUsedStack(dataDir, environment, [...VICTIMS, "mail-api"]);
  campaign = await addCampaign(mailApi, `news@${DOMAIN}`);
}, 400_000);
afterAll(async () => {
  await stack?.stop();
  await sink?.close();
  removeDataDir(dataDir);
});

function mailApi(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
  const { addresses, credentials } = stack;
  const all = { Authorization: credentials.instance.key, ...headers };
  return callApi(method, `${addresses.mail_api}/v1${path}`, all, body);
}

/** As the operator, of whom nobody takes notice while the console is away. */
function admin(method: string, path: string, body?: unknown) {
  const { login, password } = stack.credentials.operator;
  const basic = Buffer.from(`${login}:${password}`).toString("base64");
  const url = `${stack.addresses.console}/admin/v1${path}`;
  return callApi(method, url, { Authorization: `Basic ${basic}` }, body).catch(() => ({ status: 0, body: undefined }));
}

const until = (status: number, method: string, path: string, body?: unknown) =>
  eventually(
    () => admin(method, path, body),
    (answer) => answer.status === status,
    PATIENCE_MS,
  );

async function states(): Promise<string> {
  const { body } = await until(200, "GET", `${PATH}/setup`);
  return body.keys
    .map(({ algorithm, state }: { algorithm: string; state: string }) => `${algorithm} ${state}`)
    .sort()
    .join();
}

/** Has the domain looked at until its keys are so; with each look something of the product is killed in the midst of it. */
async function become(wanted: string, victims: readonly (typeof VICTIMS)[number][]): Promise<void> {
  for (const victim of victims) {
    // It may have been killed a moment ago.
    await eventually(async () => serviceOf(stack.process, victim) !== undefined, Boolean, PATIENCE_MS);
    const looking = admin("POST", `${PATH}/check`);
    // In other moments of it each time.
    await sleep(kills * 7);
    await killService(stack.process, victim);
    kills += 1;
    await looking;
    await until(200, "POST", `${PATH}/check`);
  }
  await eventually(
    async () => {
      await admin("POST", `${PATH}/check`);
      return states();
    },
    (found) => found === wanted,
    PATIENCE_MS,
  );
}

/** Sends to one recipient after the other until it is told to stop. */
function startSending() {
  const acknowledged: string[] = [];
  let isOver = false;
  const sending = (async () => {
    for (let number = 0; !isOver; number += 1) {
      const email = `r${number}@receiver.example.net`;
      const fields = { campana_id: campaign, email: true, contacto: { email }, html: "<p>Hello XYZEMAILXYZ</p>" };
      await eventually(
        () =>
          mailApi("POST", "/envio/send_one_inline/", fields, { "Idempotency-Key": email }).catch(() => ({ status: 0 })),
        ({ status }) => status === 200,
        PATIENCE_MS,
      );
      acknowledged.push(email);
      await sleep(EVERY_MS);
    }
  })();
  return {
    stop: async () => {
      isOver = true;
      await sending;
      return acknowledged;
    },
  };
}

/** Verifies each message as it arrives, as receivers do. */
function startVerifying() {
  const refused: unknown[] = [];
  const selectors: string[] = [];
  let next = 0;
  let isOver = false;
  const verifying = (async () => {
    while (!isOver || next < sink.messages.length) {
      if (next === sink.messages.length) await sleep(20);
      else selectors.push(...(await verify(sink.messages[next++]!, refused)));
    }
  })();
  return {
    selectors,
    stop: async () => {
      isOver = true;
      await verifying;
      return refused;
    },
  };
}

/** A name server that was killed is asked again, as receivers ask again. @returns the selectors that signed */
async function verify({ octets, rcptTo }: SunkMessage, refused: unknown[]): Promise<string[]> {
  const resolver = await makeDnsResolver({ host: "127.0.0.1", port: dnsPort });
  const results = await eventually(
    async () => {
      const verdict = await dkimVerify(octets, { resolver: (name, type) => resolver.resolve(name, type) as never });
      return verdict.results.map(({ selector = "", status }) => ({ selector, result: status.result }));
    },
    (found) => found.every(({ result }) => result !== "temperror"),
    PATIENCE_MS,
  );
  const isFine = results.length > 0 && results.every(({ result }) => result === "pass");
  if (!isFine) refused.push({ rcptTo, results });
  return results.map(({ selector }) => selector);
}

test(
  "a rotation goes on wherever it was killed, with mail leaving all the while",
  async () => {
    const { addresses, credentials } = stack;
    const made = await callApi(
      "POST",
      `${addresses.dns_api}/api/v1/master_zone/${DOMAIN}`,
      { Authorization: credentials.reseller.key, Reseller: credentials.reseller.id },
      {
        ...{ crm_id: "demo", mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" },
        ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 1, ttl: 1 },
      },
    );
    expect(made.status).toBe(200);
    // What it looks at in the DNS changes when the zone arrives there: who agreed to what was before is told so.
    const agreed = await eventually(
      async () => {
        const { body } = await admin("GET", `${PATH}/setup`);
        return body?.keys?.length === 2 ? admin("POST", `${PATH}/setup`, { fingerprint: body.fingerprint }) : undefined;
      },
      (answer) => answer?.status === 200,
      PATIENCE_MS,
    );
    expect(agreed?.body.refused).toEqual([]);
    await become("ed25519 signing,rsa signing", []);
    const before = await published();
    const sending = startSending();
    const verifying = startVerifying();

    // The keys are made, and nothing of them is published yet.
    const beginning = admin("POST", `${PATH}/rotation`);
    await killService(stack.process, "console");
    await beginning;
    const begun = await eventually(
      () => admin("POST", `${PATH}/rotation`),
      ({ status }) => status !== 0 && status < 500,
      PATIENCE_MS,
    );
    expect([200, 409]).toContain(begun.status);
    // They are published, waited for, and take over.
    await become("ed25519 old,ed25519 signing,rsa old,rsa signing", VICTIMS);
    await become("ed25519 old,ed25519 signing,rsa old,rsa signing", ["delivery", "console"]);
    const after = (await published()).filter((selector) => !before.includes(selector));
    expect(after).toHaveLength(2);
    await eventually(
      async () => verifying.selectors.slice(-2),
      (last) => last.every((selector) => after.includes(selector)),
      PATIENCE_MS,
    );
    // A week later the old ones go.
    await withStackDatabase(dataDir, (db) =>
      db("dkim_keys")
        .where({ state: "old" })
        .update({ retired_at: db.raw("retired_at - interval '8 days'") }),
    );
    await become("ed25519 signing,rsa signing", VICTIMS);

    const acknowledged = await sending.stop();
    const arrived = () => new Set(sink.messages.flatMap(({ rcptTo }) => rcptTo));
    await eventually(
      async () => acknowledged.filter((email) => !arrived().has(email)),
      (missing) => missing.length === 0,
      PATIENCE_MS,
    );
    expect(await verifying.stop()).toEqual([]);
    expect((await published()).sort()).toEqual(after.sort());
    process.stdout.write(`${acknowledged.length} messages, ${kills + 1} kills, ${sink.messages.length} arrived\n`);
  },
  PATIENCE_MS * 4,
);

/** Selectors that have a key in the DNS. */
async function published(): Promise<string[]> {
  const { addresses, credentials } = stack;
  const headers = { Authorization: credentials.reseller.key, Reseller: credentials.reseller.id };
  const { body } = await eventually(
    () =>
      callApi("GET", `${addresses.dns_api}/api/v1/rr/${DOMAIN}`, headers).catch(() => ({ status: 0, body: undefined })),
    ({ status }) => status === 200,
    PATIENCE_MS,
  );
  return [...new Set([...JSON.stringify(body).matchAll(/"([^"]+)\._domainkey/g)].map(([, selector]) => selector!))];
}
