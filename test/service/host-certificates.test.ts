import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "node:tls";
import { axios } from "acme-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeWriteZone } from "../../services/console/write-zone.ts";
import { open } from "../../services/core/secret-box.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import type { WriteZone } from "../../services/operations/mail/domain-hosting.ts";
import { obtainDueCertificate } from "../../services/operations/mail/host-certificate.ts";
import { makePublicLook } from "../../services/platform/lookups/authoritative-lookup.ts";
import { takeDueCertificate } from "../../services/store/mail/instances/host-certificates.ts";
import { addInstanceDomain } from "../../services/store/mail/instances/instances.ts";
import { start as startTracking } from "../../services/tracking/main.ts";
import { type AcmeAuthority, isReady, startAcme } from "../support/acme.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { askDns } from "../support/dns-client.ts";
import {
  freePort,
  isInstalled,
  ownResolverMissing,
  type Peer,
  startPeer,
  withOwnResolver,
} from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

/** Where the policy is served at the port that senders ask, and the name server at the one that resolvers know. */
const OWN_ADDRESS = "127.0.0.77";
const PATIENCE_MS = 240_000;
const HOUR_MS = 3_600_000;
const DOMAIN = "north.example.org";
const HOST = `mta-sts.${DOMAIN}`;
const SETUP = `/instances/north/domains/${DOMAIN}/setup`;
const ZONE = {
  ...{ mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" },
  ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 1, ttl: 60 },
};
const isRoot = process.getuid?.() === 0;
const missing = ["pebble", "openssl"].filter((program) => !isInstalled(program));
const noPostfix = [
  ...["mta-sts-daemon", "postmap"]
    .filter((program) => !isInstalled(program))
    .map((program) => `${program} is not installed`),
  ...(ownResolverMissing ? [ownResolverMissing] : []),
].join(", ");
const title = missing.length > 0 ? ` (skipped: ${missing.join(", ")} not installed)` : "";

describe.skipIf(missing.length > 0)(`certificates of policy hosts${title}`, { timeout: 2 * PATIENCE_MS }, () => {
  let palomar: TestConsole;
  let operator: SignedIn;
  let acme: AcmeAuthority;
  let secure: { host: string; port: number };

  beforeAll(async () => {
    const port = isRoot ? 53 : await freePort();
    const dns = `${isRoot ? OWN_ADDRESS : "127.0.0.1"}:${port}`;
    acme = await startAcme({ host: dns.split(":")[0]!, port });
    await eventually(() => isReady(acme), Boolean, PATIENCE_MS);
    axios.defaults.httpsAgent = new Agent({ ca: readFileSync(acme.certificate) });
    palomar = await startConsole([startDnsApi, startDnsServer, startTracking], {
      ...{ PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_LISTEN: dns, PALOMAR_RESOLVER: dns },
      ...{ PALOMAR_DOMAIN_CHECK: "resolver", PALOMAR_BOUNCE_DOMAIN: "bounces.example.net" },
      ...{ PALOMAR_HOSTNAME: "mx.example.net", PALOMAR_TRACKING_URL: "https://track.example.org" },
      ...{ PALOMAR_TRACKING_LISTEN: "127.0.0.1:0", PALOMAR_ACME_DIRECTORY: acme.url },
      PALOMAR_TRACKING_TLS_LISTEN: isRoot ? `${OWN_ADDRESS}:443` : "127.0.0.1:0",
      ...{ PALOMAR_CONSOLE_IDLE_HOURS: "720", PALOMAR_CONSOLE_SESSION_DAYS: "365" },
    });
    ({ operator } = palomar.users);
    const address = await palomar.context.addressOf("tracking_tls");
    secure = { host: address.split(":")[0]!, port: Number(address.split(":")[1]) };
    const { one } = palomar.users;
    for (const domain of ["example.org", "example.net"]) {
      await one.call("POST", `/dns/one/master_zone/${domain}`, { ...ZONE, crm_id: "acme" });
    }
    await one.call("POST", "/dns/one/rr/example.org/batch", {
      create: [
        { name: "north", type: "MX", value: "mail.north.example.org.", rr_prio: 10 },
        { name: "mail.north", type: "A", value: "192.0.2.3" },
        { name: "track", type: "A", value: OWN_ADDRESS },
      ],
    });
    await eventually(
      () => askDns(dns, "mail.north.example.org", "A"),
      ({ answers = [] }) => answers.length > 0,
      PATIENCE_MS,
    );
    expect((await operator.call("PATCH", SETUP, { mta_sts: "enforce" })).status).toBe(200);
    // The policy names the exchangers that a look found.
    await eventually(
      async () => (await palomar.context.db("domain_upkeep").where({ domain: DOMAIN }).first()).sts_exchangers,
      (exchangers) => exchangers.length === 1,
      PATIENCE_MS,
    );
    const { fingerprint } = (await operator.call("GET", SETUP)).body;
    const agreed = await operator.call("POST", SETUP, { fingerprint, flatten: false });
    expect(agreed.body.written.map(({ name }: { name: string }) => name)).toContain(HOST);
  }, PATIENCE_MS);
  afterAll(async () => {
    await acme?.stop();
    await palomar?.stop();
  });

  const db = () => palomar.context.db;
  const row = (domain = DOMAIN) => db()("host_certificates").where({ domain }).first();
  /** Has everything looked at again. */
  const lookAgain = () => db()("domain_upkeep").update({ due_at: new Date(0) });
  const untilObtained = (serial?: string) =>
    eventually(
      async () => {
        await lookAgain();
        return row();
      },
      (found) => found?.chain && found.chain !== serial && found.challenge === null,
      PATIENCE_MS,
    );

  function fetchPolicy(servername: string, ca: string | undefined): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(
        {
          ...secure,
          path: "/.well-known/mta-sts.txt",
          servername,
          ...(ca ? { ca } : {}),
          headers: { host: servername },
        },
        async (answer) => {
          let text = "";
          for await (const chunk of answer) text += chunk;
          resolve({ status: answer.statusCode!, text });
        },
      );
      sent.on("error", reject);
      sent.end();
    });
  }

  test("are obtained by the zone that is hosted here, served to whoever asks, and leave nothing behind", async () => {
    const obtained = await untilObtained();
    expect(obtained).toMatchObject({ host: HOST, failure: "", failures: 0 });
    const policy = await fetchPolicy(HOST, await acme.root());
    expect(policy).toEqual({
      status: 200,
      text: "version: STSv1\r\nmode: enforce\r\nmx: mail.north.example.org\r\nmax_age: 604800\r\n",
    });
    const { body } = await palomar.users.one.call("GET", "/dns/one/rr/example.org");
    expect(JSON.stringify(body)).not.toContain("_acme-challenge");
    const key = open(palomar.context.keyRing, "host-certificate", obtained.key_sealed);
    expect(key.ok && key.value.toString()).toContain("PRIVATE KEY");
    expect(obtained.key_sealed).not.toContain("PRIVATE KEY");
    expect(await db()("certificate_orders")).toHaveLength(1);
    expect(await db()("acme_accounts")).toMatchObject([{ directory: acme.url }]);
    const third = (obtained.not_after.getTime() - Date.now()) / 3;
    expect(obtained.not_after.getTime() - obtained.renew_at.getTime()).toBeLessThan(third + HOUR_MS);
  });

  test("who asks for another name gets the deployment's own", async () => {
    const served = await new Promise<string>((resolve, reject) => {
      const socket = connect({ ...secure, servername: "mta-sts.south.example.org", rejectUnauthorized: false }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN));
        socket.destroy();
      });
      socket.on("error", reject);
    });
    expect(served).toBe("mx.example.net");
    await expect(fetchPolicy("mta-sts.south.example.org", await acme.root())).rejects.toThrow();
  });

  test("are renewed in time, with a new key, by the same account, and served without a restart", async () => {
    const before = await row();
    await db()("host_certificates").update({ renew_at: db().fn.now(), try_at: db().fn.now() });
    const after = await untilObtained(before.chain);
    expect(after.key_sealed).not.toBe(before.key_sealed);
    expect(await db()("acme_accounts")).toHaveLength(1);
    const root = await acme.root();
    const [leaf] = after.chain.split("-----END CERTIFICATE-----");
    await eventually(
      () =>
        new Promise<string>((resolve, reject) => {
          const socket = connect({ ...secure, servername: HOST, ca: root }, () => {
            resolve(socket.getPeerCertificate().raw.toString("base64"));
            socket.destroy();
          });
          socket.on("error", reject);
        }),
      (raw) => raw === leaf!.replace(/-----BEGIN CERTIFICATE-----|\s/g, ""),
      PATIENCE_MS,
    );
  });

  test("a proof that a process left behind when it died is taken away", async () => {
    const before = await row();
    const { one } = palomar.users;
    const create = [{ name: `_acme-challenge.mta-sts.north`, type: "TXT", value: "left-behind" }];
    await one.call("POST", "/dns/one/rr/example.org/batch", { create });
    await db()("host_certificates").update({
      ...{ challenge: "left-behind", renew_at: db().fn.now(), try_at: db().fn.now() },
    });
    await untilObtained(before.chain);
    const { body } = await one.call("GET", "/dns/one/rr/example.org");
    expect(JSON.stringify(body)).not.toContain("left-behind");
  });

  test("an order that ends while its proof is being written takes the proof away all the same", async () => {
    const look = await makePublicLook({ config: palomar.context.config });
    const writeZone = makeWriteZone(palomar.context, "test");
    const ending = new AbortController();
    let written = 0;
    const write: WriteZone = async (zone, changes) => {
      if (changes.creations.length > 0) {
        ending.abort();
        await sleep(500);
        written += 1;
      }
      return writeZone(zone, changes);
    };
    // The console's own upkeep may be there first.
    await eventually(
      async () => {
        await db()("host_certificates").update({ renew_at: db().fn.now(), try_at: db().fn.now() });
        return obtainDueCertificate({ ...palomar.context, openLook: look, write, signal: ending.signal }, acme.url);
      },
      () => written > 0,
      PATIENCE_MS,
    );
    expect((await row()).challenge).toBeNull();
    const { body } = await palomar.users.one.call("GET", "/dns/one/rr/example.org");
    expect(JSON.stringify(body)).not.toContain("_acme-challenge");
  });

  test.skipIf(noPostfix !== "")(
    `Postfix accepts the policy by postfix-mta-sts-resolver${noPostfix && ` (skipped: ${noPostfix})`}`,
    async () => {
      const folder = join(acme.folder, "postfix");
      mkdirSync(folder);
      writeFileSync(join(folder, "main.cf"), "compatibility_level = 3.6\n");
      const daemon = await startStsDaemon(await acme.root());
      const ask = (name: string) =>
        new Promise<string>((resolve) => {
          const table = `socketmap:inet:127.0.0.1:${daemon.port}:postfix`;
          execFile("postmap", ["-c", folder, "-q", name, table], (_error, stdout) => resolve(stdout.trim()));
        });
      try {
        const said = await eventually(() => ask(DOMAIN), Boolean, PATIENCE_MS).catch((cause) => {
          throw new Error(daemon.log(), { cause });
        });
        expect(said).toBe("secure match=mail.north.example.org servername=hostname");
        // Who has no policy is not held to one.
        expect(await ask("example.org")).toBe("");
      } finally {
        await daemon.stop();
      }
    },
  );

  /** `mta-sts-daemon`, with the name server of this test for its resolver, and its authority for the only one. */
  async function startStsDaemon(root: string): Promise<Peer> {
    return startPeer("mta-sts-daemon", await freePort(), (own, port) => ({
      files: {
        "resolv.conf": `nameserver ${OWN_ADDRESS}\n`,
        "root.pem": root,
        "daemon.yml": `host: 127.0.0.1\nport: ${port}\ncache:\n  type: internal\n  options: {}\n`,
      },
      command: withOwnResolver(join(own, "resolv.conf"), [
        ...["env", `SSL_CERT_FILE=${own}/root.pem`, "mta-sts-daemon", "-v", "debug", "-c", join(own, "daemon.yml")],
      ]),
    }));
  }

  test("another instance with the same domain gets none, and is told why in the domain's checklist", async () => {
    const { db, keyRing } = palomar.context;
    const { id } = await db("instances").where({ name: "south" }).first();
    await addInstanceDomain(db, keyRing, id, DOMAIN);
    const south = `/instances/south/domains/${DOMAIN}/setup`;
    expect((await palomar.users.south.call("PATCH", south, { mta_sts: "enforce" })).status).toBe(200);
    const item = await eventually(
      async () => {
        await lookAgain();
        const { checks } = await db("domain_upkeep").where({ instance_id: id, domain: DOMAIN }).first();
        return checks?.find(({ part }: { part: string }) => part === "mta-sts-host");
      },
      (found) => found?.action === "ask",
      PATIENCE_MS,
    );
    expect(item.fault).toMatchObject({ kind: "no-certificate", at: expect.stringContaining("not hosted here") });
    await palomar.users.south.call("PATCH", south, { mta_sts: null });
  });

  test("no instance orders without end, and no deployment does", async () => {
    const { db } = palomar.context;
    const limits = { perDay: 100, perInstanceAndDay: 10, retrySeconds: 900, mostRetrySeconds: 86_400 };
    const taken = (changes: Partial<typeof limits> = {}) =>
      db
        .transaction(async (transaction) => {
          const due = await takeDueCertificate(transaction, { ...limits, ...changes });
          await transaction.rollback();
          return due;
        })
        .catch(() => undefined);
    const due = async (changes: Partial<typeof limits> = {}) => {
      let found: unknown;
      await db
        .transaction(async (transaction) => {
          await transaction("host_certificates")
            .where({ domain: DOMAIN })
            .update({ renew_at: null, try_at: new Date(0) });
          found = await takeDueCertificate(transaction, { ...limits, ...changes });
          throw new Error("undone");
        })
        .catch(() => {});
      return found;
    };
    expect(await taken()).toBeUndefined();
    expect(await due()).toMatchObject({ host: HOST });
    expect(await due({ perDay: 1 })).toBeUndefined();
    expect(await due({ perInstanceAndDay: 1 })).toBeUndefined();
  });
});
