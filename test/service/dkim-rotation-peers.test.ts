import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Signers } from "../../services/delivery/signers.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { startConsole, type TestConsole } from "../support/console.ts";
import { DKIM_VERIFIERS } from "../support/dkim-verifiers.ts";
import { freePort } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

/** Messages that leave while the keys change; `npm run check:rotation` has 20,000 of them. */
const MESSAGES = Number(process.env.PALOMAR_TEST_ROTATION ?? 120);
const PATIENCE_MS = 120_000 + MESSAGES * 100;
const DAY_MS = 86_400_000;
const DOMAIN = "north.example.org";
const PATH = `/instances/north/domains/${DOMAIN}`;

let palomar: TestConsole;
let dns: string;
let signers: Signers;
let instanceId: number;
let folder: string;
const sent: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-rotation-"));
  dns = `127.0.0.1:${await freePort()}`;
  palomar = await startConsole([startDnsApi, startDnsServer], {
    ...{ PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_LISTEN: dns, PALOMAR_RESOLVER: dns },
    ...{ PALOMAR_DOMAIN_CHECK: "resolver", PALOMAR_BOUNCE_DOMAIN: "bounces.example.net" },
    // Time is moved on by weeks.
    ...{ PALOMAR_CONSOLE_IDLE_HOURS: "720", PALOMAR_CONSOLE_SESSION_DAYS: "365" },
  });
  const { db, keyRing } = palomar.context;
  signers = new Signers(db, keyRing, "bounces.example.net");
  instanceId = (await db("instances").where({ name: "north" }).first()).id;
  await palomar.users.one.call("POST", "/dns/one/master_zone/example.org", {
    ...{ crm_id: "acme", mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" },
    ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 60, ttl: 60 },
  });
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
  rmSync(folder, { recursive: true });
});

/** The keys and their states, after another look at the domain. */
async function states(advanceMs: number): Promise<string> {
  const { operator } = palomar.users;
  palomar.clock.advance(advanceMs);
  await operator.call("POST", `${PATH}/check`);
  const { keys } = (await operator.call("GET", `${PATH}/setup`)).body;
  return keys
    .map(({ algorithm, state }: { algorithm: string; state: string }) => `${algorithm} ${state}`)
    .sort()
    .join();
}

const become = (wanted: string) =>
  eventually(
    () => states(30_000),
    (found) => found === wanted,
    PATIENCE_MS,
  );

/** Signs messages as delivery does, with the keys that sign at that moment. */
async function send(count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    const number = sent.length;
    const message = Buffer.from(
      [
        `From: Shop <shop@${DOMAIN}>`,
        `To: r${number}@example.net`,
        `Subject: Message ${number}`,
        `Date: ${new Date().toUTCString().replace("GMT", "+0000")}`,
        `Message-ID: <${number}@${DOMAIN}>`,
        ...["MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "", `Hello ${number}  \t.`, "", ""],
      ].join("\r\n"),
    );
    const sender = await signers.find(instanceId, DOMAIN);
    const file = `m${number}`;
    writeFileSync(join(folder, file), Buffer.concat([await sender!.signer.signInPool(message, new Date()), message]));
    sent.push(file);
  }
}

it(
  `${MESSAGES} messages leave while both keys change`,
  async () => {
    const { operator } = palomar.users;
    await eventually(
      async () => (await operator.call("GET", `${PATH}/setup`)).body.keys,
      (keys) => keys.length === 2,
    );
    const { fingerprint } = (await operator.call("GET", `${PATH}/setup`)).body;
    expect((await operator.call("POST", `${PATH}/setup`, { fingerprint })).body.refused).toEqual([]);
    await become("ed25519 signing,rsa signing");
    await eventually(
      () => signers.find(instanceId, DOMAIN),
      (sender) => sender !== undefined,
    );
    signers = new Signers(palomar.context.db, palomar.context.keyRing, "bounces.example.net");
    const part = Math.floor(MESSAGES / 4);
    await send(part);
    expect((await operator.call("POST", `${PATH}/rotation`)).status).toBe(200);
    await states(0);
    await send(part);
    // The signer that delivery keeps for some seconds goes on with the keys of before.
    await become("ed25519 old,ed25519 signing,rsa old,rsa signing");
    await send(part);
    signers = new Signers(palomar.context.db, palomar.context.keyRing, "bounces.example.net");
    await states(6.9 * DAY_MS);
    await send(MESSAGES - 3 * part);
    expect(sent).toHaveLength(MESSAGES);
  },
  PATIENCE_MS * 2,
);

for (const { name, absence, failures } of DKIM_VERIFIERS) {
  it.skipIf(absence !== undefined)(
    `${name} verifies all of them, days later${absence === undefined ? "" : ` (skipped: ${absence})`}`,
    async () => {
      expect(await failures(folder, sent, dns)).toEqual([]);
    },
    PATIENCE_MS * 4,
  );
}

it.skipIf(DKIM_VERIFIERS.every(({ absence }) => absence !== undefined))(
  "and when the old keys are gone, those of the new ones alone",
  async () => {
    await eventually(
      () => states(0.2 * DAY_MS),
      (found) => found === "ed25519 signing,rsa signing",
      PATIENCE_MS,
    );
    for (const { failures, absence } of DKIM_VERIFIERS.filter((one) => one.absence === undefined)) {
      expect(absence).toBeUndefined();
      expect(await failures(folder, sent.slice(-5), dns)).toEqual([]);
      expect(await failures(folder, sent.slice(0, 5), dns).catch(() => sent.slice(0, 5))).toEqual(sent.slice(0, 5));
    }
  },
  PATIENCE_MS,
);
