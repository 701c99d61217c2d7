import { createHash, X509Certificate } from "node:crypto";
import { createServer, request as httpsRequest } from "node:https";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import type { TlsReport } from "../../services/core/mail/reports/report.ts";
import type { AppliedSts } from "../../services/core/mail/reports/tls-session.ts";
import { ok } from "../../services/core/result.ts";
import type { DaneDemand } from "../../services/delivery/routing/dane.ts";
import { findMxRoute } from "../../services/delivery/routing/mx-route.ts";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import { startTlsReporter } from "../../services/delivery/tls-reporter.ts";
import { readReport, readReportMessage } from "../../services/operations/mail/reports/read-report.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { postTo } from "../../services/platform/lookups/post.ts";
import type { Resolver } from "../../services/platform/lookups/resolver.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { addInstanceDomain, listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import { makeAuthority, makeServerCertificate } from "../support/certificates.ts";
import {
  accept,
  database,
  eventually,
  instanceId,
  makeWorker,
  numbered,
  run,
  setUpDelivery,
  sink,
  stops,
  untilSent,
} from "../support/delivery.ts";
import type { SmtpSink } from "../support/smtp-sink.ts";

setUpDelivery();

const BOUNCE_DOMAIN = "bounces.example.org";
const KEY_RING = KeyRing.ofSecret("a secret for tests only");
const POLICY = {
  ...{ leastSeconds: 0, mostSeconds: 0, perMinute: 1_000, perTargetAndDay: 1_000 },
  ...{ mostAttempts: 3, retrySeconds: 1 },
};

/** A domain with its exchangers `mx<n>.<domain>`, each a sink, and its MTA-STS policy. */
interface FarSide {
  readonly sinks: readonly SmtpSink[];
  readonly sts?: AppliedSts;
  readonly dane?: DaneDemand;
}

/** The way by the exchangers of each domain, as the DNS would have them; each sink has an address of its own. */
function waysTo(farSides: Readonly<Record<string, FarSide>>): FindRoute {
  const found = <T>(records: T[]) => ({ kind: "found", records }) as const;
  return async (destination) => {
    const far = farSides[destination]!;
    const resolver: Resolver = {
      resolveMx: async () =>
        found(far.sinks.map((_, index) => ({ preference: index, exchange: `mx${index}.${destination}` }))),
      resolveA: async (name) => found([far.sinks[Number(/^mx(\d)/.exec(name)![1])]!.address.split(":")[0]!]),
      resolveAaaa: async () => ({ kind: "nodata" }),
    };
    return findMxRoute(destination, {
      resolver,
      findPolicy: async () => far.sts,
      findDane: async () => far.dane ?? { kind: "none" },
      allowedBlocks: ["127.0.0.0/8"],
      ownName: "own.example.net",
      port: far.sinks[0]!.port,
    });
  };
}

const withTls = async (host: string, options: Parameters<typeof sink>[0] = {}) => {
  const { cert, key } = await makeServerCertificate(host);
  return sink({ cert, key, disabledCommands: ["AUTH"], ...options });
};

/** What has been counted belongs to yesterday from now on. */
const endTheDay = () => database.db.raw("update tls_sessions set day = day - 1");

interface Reporting {
  /** Texts at `_smtp._tls` of a domain; undefined: nobody can say. */
  readonly texts: Readonly<Record<string, string[] | undefined>>;
  readonly reportsTo?: SmtpSink;
  /** Where reports go by mail, if not all to `reportsTo`. */
  readonly sinkOf?: (domain: string) => SmtpSink;
  readonly reportMs?: number;
  readonly post?: Parameters<typeof startTlsReporter>[0]["post"];
  readonly policy?: Partial<typeof POLICY>;
}

/** Starts what reports. @returns what it observed */
function report(reporting: Reporting): Observation[] {
  return startReporting(reporting).observed;
}

function startReporting({ texts, reportsTo, sinkOf = () => reportsTo!, post, policy = {}, reportMs }: Reporting): {
  observed: Observation[];
  stop(): Promise<void>;
} {
  const observed: Observation[] = [];
  const reporter = startTlsReporter({
    ...{ db: database.db, keyRing: KEY_RING, clock: systemClock, bounceDomain: BOUNCE_DOMAIN },
    observe: (observation) => observed.push(observation),
    policy: { ...POLICY, ...policy },
    hostname: "localhost",
    findRoute: async (domain) => {
      const { address, port } = sinkOf(domain);
      return ok({
        key: "reports",
        peers: [{ host: address.split(":")[0]!, port, name: "localhost", tls: "opportunistic" }],
      });
    },
    ...(reportMs === undefined ? {} : { reportMs }),
    lookUpTexts: async (name) => texts[name.replace(/^_smtp\._tls\./, "")],
    post: post ?? (() => Promise.reject(new Error("nothing goes by HTTPS"))),
  });
  stops.push(() => reporter.stop());
  return { observed, stop: () => reporter.stop() };
}

const sendings = () =>
  database.db("tls_report_sendings").orderBy(["destination", "uri"]).select("destination", "uri", "state", "reply");
const untilEnded = () => eventually(sendings, (rows) => rows.length > 0 && rows.every(({ state }) => state !== "due"));

async function read(octets: Buffer): Promise<TlsReport> {
  const found = await readReportMessage(octets, new Date());
  if (!found.ok || found.value.kind !== "tls") throw new Error("no report about TLS");
  return found.value;
}

/** Sessions by policy and result. */
function sums({ rows }: TlsReport): Record<string, number> {
  const by: Record<string, number> = {};
  for (const { policyType, result, sessions } of rows) {
    const key = `${policyType} ${result || "success"}`;
    by[key] = (by[key] ?? 0) + sessions;
  }
  return by;
}

test("a day's sessions are told to each domain that asks, as they were", async () => {
  const plain = await sink({ host: "127.0.0.1" });
  const open = await withTls("mx0.open.example.net");
  const tried = await withTls("mx0.tried.example.net");
  const strict = await withTls("mx0.strict.example.net");
  const second = await sink({ host: "127.0.0.2", port: strict.port });
  const { cert, key } = await makeServerCertificate("mx0.dane.example.net");
  const proven = await sink({ cert, key, disabledCommands: ["AUTH"] });
  const digest = createHash("sha256").update(new X509Certificate(cert).raw).digest();
  const proof = (association: Buffer): DaneDemand => ({
    kind: "proof",
    requirement: {
      records: [{ usage: 3, selector: 0, matchingType: 1, association }],
      names: ["mx0.dane.example.net"],
    },
  });
  const sts = (mode: "enforce" | "testing", mx: string[]): AppliedSts => ({ mode, mx });
  const farSides: Record<string, FarSide> = {
    "plain.example.net": { sinks: [plain] },
    "open.example.net": { sinks: [open] },
    "tried.example.net": { sinks: [tried], sts: sts("testing", ["*.tried.example.net"]) },
    "elsewhere.example.net": { sinks: [tried], sts: sts("testing", ["mx.other.example.net"]) },
    "strict.example.net": { sinks: [strict, second], sts: sts("enforce", ["*.strict.example.net"]) },
    "unlisted.example.net": { sinks: [plain], sts: sts("enforce", ["mx.other.example.net"]) },
    "dane.example.net": { sinks: [proven], dane: proof(digest) },
    "forged.example.net": { sinks: [proven], dane: proof(Buffer.alloc(32)) },
    "bogus.example.net": { sinks: [proven], dane: { kind: "unknown" } },
    "unread.example.net": { sinks: [open], sts: { mode: "none", mx: [], failure: "sts-policy-fetch-error" } },
  };
  const findRoute = waysTo(farSides);
  // Two workers, and a third in the place of one that goes.
  const first = makeWorker(findRoute, {}, [3_600], { countsTls: true });
  first.start();
  run(makeWorker(findRoute, {}, [3_600], { countsTls: true }));
  const delivered = ["plain", "open", "tried", "elsewhere", "unread"];
  for (const name of delivered) await untilSent(await accept(numbered(20, `${name}.example.net`)));
  await first.stop();
  run(makeWorker(findRoute, {}, [3_600], { countsTls: true }));
  for (const name of delivered) await untilSent(await accept(numbered(5, `${name}.example.net`)));
  await untilSent(await accept(["a@dane.example.net"]));
  for (const name of ["strict", "unlisted", "forged", "bogus"]) await accept([`a@${name}.example.net`]);
  await eventually(
    () => database.db("deliveries").where({ state: "queued", attempts: 1 }),
    (rows) => rows.length === 4,
  );

  await addInstanceDomain(database.db, KEY_RING, instanceId, BOUNCE_DOMAIN);
  const receiver = await sink();
  await endTheDay();
  const asks = [`v=TLSRPTv1; rua=mailto:tls@example.net`];
  const texts = Object.fromEntries(Object.keys(farSides).map((domain) => [domain, asks]));
  // Several processes share the reports.
  const reporting = { texts, reportsTo: receiver };
  report(reporting);
  report(reporting);
  await untilEnded();
  expect(receiver.messages).toHaveLength(Object.keys(farSides).length);
  const told = new Map<string, TlsReport>();
  for (const { octets } of receiver.messages) {
    const one = await read(octets);
    told.set(one.rows[0]!.policyDomain, one);
  }
  const of = (name: string) => sums(told.get(`${name}.example.net`)!);
  expect(of("plain")).toEqual({ "no-policy-found starttls-not-supported": plain.sessions() });
  const [unread] = Object.values(of("unread"));
  expect(of("unread")).toEqual({ "sts sts-policy-fetch-error": unread });
  expect(of("open")).toEqual({ "no-policy-found success": open.sessions() - unread! });
  const [elsewhere] = Object.values(of("elsewhere"));
  expect(of("elsewhere")).toEqual({ "sts validation-failure": elsewhere });
  expect(of("tried")).toEqual({ "sts certificate-not-trusted": tried.sessions() - elsewhere! });
  // The first with a certificate that nobody vouches for, the second without TLS.
  expect(of("strict")).toEqual({ "sts certificate-not-trusted": 1, "sts starttls-not-supported": 1 });
  expect(strict.sessions() + second.sessions()).toBe(2);
  expect(of("unlisted")).toEqual({ "sts validation-failure": 1 });
  expect(of("dane")).toEqual({ "tlsa success": 1 });
  expect(of("forged")).toEqual({ "tlsa validation-failure": 1 });
  expect(of("bogus")).toEqual({ "tlsa dnssec-invalid": 1 });

  // Days that were told are not told again.
  report(reporting);
  await eventually(
    () => database.db("tls_report_sendings").where({ state: "due" }),
    (due) => due.length === 0,
  );
  expect(receiver.messages).toHaveLength(Object.keys(farSides).length);
});

test("a handshake that fails is told, and the mail goes on in clear", async () => {
  // No suite in common.
  const far = await sink({
    disabledCommands: ["AUTH"],
    ciphers: "ECDHE-RSA-AES128-SHA",
    maxVersion: "TLSv1.2",
    ecdhCurve: "secp521r1",
    sigalgs: "ecdsa_secp521r1_sha512",
  });
  const findRoute = waysTo({ "old.example.net": { sinks: [far] } });
  run(makeWorker(findRoute, {}, [3_600], { countsTls: true }));
  await untilSent(await accept(["a@old.example.net"]));
  expect(far.messages).toHaveLength(1);
  const rows = await database.db("tls_sessions").select("result", "sessions", "exchanger", "address");
  expect(rows).toEqual([
    { result: "validation-failure", sessions: 1, exchanger: "mx0.old.example.net", address: "127.0.0.1" },
  ]);
});

test("nothing is counted, and nothing asked of the database, where reports are off", async () => {
  const far = await withTls("mx0.open.example.net");
  run(makeWorker(waysTo({ "open.example.net": { sinks: [far] } })));
  await untilSent(await accept(["a@open.example.net"]));
  expect(await database.db("tls_sessions")).toEqual([]);
});

const addSessions = (destination: string, sessions = 7) =>
  database.db("tls_sessions").insert({
    ...{
      destination,
      policy_type: "no-policy-found",
      policy: [],
      policy_exchangers: [],
      exchanger: `mx.${destination}`,
    },
    ...{ address: "192.0.2.1", source: "192.0.2.2", result: "", reason: "", sessions },
    day: database.db.raw("current_date - 1"),
  });

test("a report by mail is signed, named and packed as RFC 8460 says, and has one name however often it is sent", async () => {
  await addInstanceDomain(database.db, KEY_RING, instanceId, BOUNCE_DOMAIN);
  await addSessions("far.example.net");
  const receiver = await sink();
  report({ texts: { "far.example.net": ["v=TLSRPTv1; rua=mailto:tls@reports.example.net"] }, reportsTo: receiver });
  await untilEnded();
  const [message] = receiver.messages;
  expect(message).toMatchObject({ mailFrom: "", rcptTo: ["tls@reports.example.net"] });
  const text = message!.octets.toString("latin1");
  expect(text).toMatch(/^TLS-Report-Domain: far\.example\.net\r$/m);
  expect(text).toMatch(/^TLS-Report-Submitter: bounces\.example\.org\r$/m);
  expect(text).toMatch(/multipart\/report;\s+report-type="tlsrpt"/);
  expect(text).toContain("application/tlsrpt+gzip");
  const domains = await listInstanceDomains(database.db, instanceId);
  const own = domains.find(({ domain }) => domain === BOUNCE_DOMAIN)!;
  const { results } = await dkimVerify(message!.octets, {
    resolver: (async (name: string) => {
      if (name !== `${own.dkimSelector}._domainkey.${BOUNCE_DOMAIN}`) throw new Error(name);
      return [[own.dkimRecord]];
    }) as never,
  });
  expect(results.map(({ status, signingDomain }) => [status.result, signingDomain])).toEqual([["pass", BOUNCE_DOMAIN]]);
  expect(text).not.toMatch(/[;\s]l=\d/);
  const first = await read(message!.octets);

  // As after the death of a process between the far side's word and the note of it.
  await database.db("tls_report_sendings").whereNot({ uri: "" }).update({ state: "due", due_at: database.db.fn.now() });
  report({ texts: {}, reportsTo: receiver });
  await eventually(
    async () => receiver.messages.length,
    (count) => count === 2,
  );
  expect((await read(receiver.messages[1]!.octets)).reportId).toBe(first.reportId);
});

test("a report goes by HTTPS to a server with a valid certificate, and to no other", async () => {
  const authority = await makeAuthority("Test root");
  const certificate = await makeServerCertificate("localhost", { authority });
  const taken: { type: string | undefined; body: Buffer }[] = [];
  const server = createServer(certificate, async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    taken.push({ type: request.headers["content-type"], body: Buffer.concat(chunks) });
    response.writeHead(201).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => new Promise((resolve) => server.close(resolve)));
  const url = `https://localhost:${(server.address() as AddressInfo).port}/v1/tls`;
  await addSessions("far.example.net", 31);
  const texts = { "far.example.net": [`v=TLSRPTv1; rua=${url}`] };
  const surroundings = {
    config: { fetchAllow: ["127.0.0.0/8", "::1/128"], resolver: null },
    resolver: {
      resolveMx: async () => ({ kind: "nodata" }) as const,
      resolveA: async () => ({ kind: "found", records: ["127.0.0.1"] }) as const,
      resolveAaaa: async () => ({ kind: "nodata" }) as const,
    },
  };
  const { observed, stop } = startReporting({
    ...{ texts, policy: { mostAttempts: 1 } },
    post: (to, message) => postTo(to, message, surroundings),
  });
  await untilEnded();
  await expect.poll(() => observed).toMatchObject([{ kind: "tls-report", by: "https", outcome: "failed" }]);
  expect(taken).toEqual([]);

  await stop();
  await database.db("tls_report_sendings").whereNot({ uri: "" }).update({ state: "due", due_at: database.db.fn.now() });
  report({ texts, post: (to, message) => postTrusting(to, message, authority.cert) });
  await untilEnded();
  expect(taken).toHaveLength(1);
  expect(taken[0]!.type).toBe("application/tlsrpt+gzip");
  expect(JSON.parse(gunzipSync(taken[0]!.body).toString())).toMatchObject({ "organization-name": BOUNCE_DOMAIN });
  const found = await readReport(taken[0]!.body, new Date());
  expect(found.ok && found.value.kind === "tls" && sums(found.value)).toEqual({ "no-policy-found success": 31 });
});

function postTrusting(
  url: string,
  { body, headers }: { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> },
  ca: string,
): Promise<ReturnType<typeof ok<number>>> {
  return new Promise((resolve, reject) => {
    const sent = httpsRequest(url, { method: "POST", headers, ca }, (answer) => {
      answer.resume();
      resolve(ok(answer.statusCode!));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

test("who does not ask gets nothing, who cannot be asked is asked again, and nobody is flooded", async () => {
  await addInstanceDomain(database.db, KEY_RING, instanceId, BOUNCE_DOMAIN);
  const receiver = await sink();
  const flooders = ["a", "b", "c", "d"].map((name) => `${name}.example.net`);
  for (const domain of [...flooders, "silent.example.net", "twice.example.net", "away.example.net"]) {
    await addSessions(domain);
  }
  const victim = ["v=TLSRPTv1; rua=mailto:victim@example.com"];
  const texts = {
    ...Object.fromEntries(flooders.map((domain) => [domain, victim])),
    "silent.example.net": ["v=spf1 -all"],
    "twice.example.net": [...victim, ...victim],
    "away.example.net": undefined,
  };
  report({ texts, reportsTo: receiver, policy: { perTargetAndDay: 2, mostAttempts: 2 } });
  await eventually(sendings, (rows) => rows.filter(({ state }) => state !== "due").length >= 10);
  const rows = await sendings();
  expect(rows.filter(({ reply }) => reply === "too many reports")).toHaveLength(2);
  expect(receiver.messages).toHaveLength(2);
  const asked = (domain: string) => rows.find(({ destination, uri }) => destination === domain && uri === "")!.state;
  expect([asked("silent.example.net"), asked("twice.example.net"), asked("away.example.net")]).toEqual([
    ...["unwanted", "unwanted", "due"],
  ]);
});

/** A server that takes connections and answers no recipient. */
async function stalledSink() {
  let open = 0;
  let most = 0;
  const server = await sink({
    onConnect: (_session, done) => {
      open += 1;
      most = Math.max(most, open);
      done();
    },
    onClose: () => {
      open -= 1;
    },
    onRcptTo: () => {},
  });
  return { server, most: () => most };
}

test.each<[string, (index: number) => string]>([
  ["many names below one domain", (index) => `d${index}.slow.example.net`],
  ["many domains of one server", (index) => `slow-${index}.example`],
])("who has %s and answers slowly holds up nobody else", async (_, nameOf) => {
  await addInstanceDomain(database.db, KEY_RING, instanceId, BOUNCE_DOMAIN);
  const slow = await stalledSink();
  const honest = await sink();
  const slowNames = Array.from({ length: 24 }, (_, index) => nameOf(index));
  const others = ["a.example.org", "b.example.com"];
  for (const domain of [...slowNames, ...others]) await addSessions(domain);
  const texts = Object.fromEntries(
    [...slowNames, ...others].map((domain) => [domain, [`v=TLSRPTv1; rua=mailto:tls@${domain}`]]),
  );
  const sinkOf = (domain: string) => (others.includes(domain) ? honest : slow.server);
  report({ texts, sinkOf, reportMs: 4_000, policy: { retrySeconds: 60 } });
  await eventually(
    async () => honest.messages.length,
    (count) => count === others.length,
  );
  // The time for a whole report ends what no time-out of a single step has ended yet.
  await eventually(sendings, (rows) => rows.some(({ reply }) => reply === "it took too long"));
  expect(slow.most()).toBeLessThanOrEqual(3);
  expect((await sendings()).filter(({ state }) => state === "failed")).toEqual([]);
});

test("whoever stops waits for no server and no answer, and gives back what was in hand", async () => {
  await addInstanceDomain(database.db, KEY_RING, instanceId, BOUNCE_DOMAIN);
  const slow = await stalledSink();
  let signal: AbortSignal | undefined;
  await addSessions("mail.example.net");
  await addSessions("web.example.org");
  const texts = {
    "mail.example.net": ["v=TLSRPTv1; rua=mailto:tls@mail.example.net"],
    "web.example.org": ["v=TLSRPTv1; rua=https://web.example.org/"],
  };
  const { observed, stop } = startReporting({
    ...{ texts, reportsTo: slow.server, policy: { mostAttempts: 1 } },
    post: (_url, _message, time) => {
      signal = time;
      return new Promise(() => {});
    },
  });
  await eventually(
    async () => signal !== undefined && slow.most() === 1,
    (isUnderWay) => isUnderWay,
  );
  const since = performance.now();
  await stop();
  // A whole report has a minute.
  expect(performance.now() - since).toBeLessThan(20_000);
  expect(signal!.aborted).toBe(true);
  expect(observed).toEqual([]);
  const inHand = database.db("tls_report_sendings").whereNot({ uri: "" });
  expect(await inHand.clone().select("state", "attempts")).toEqual([
    { state: "due", attempts: 0 },
    { state: "due", attempts: 0 },
  ]);
  expect(await inHand.clone().where("due_at", ">", database.db.fn.now())).toEqual([]);
});

test("without a key of the bounce domain no report leaves by mail, and somebody hears of it", async () => {
  await addSessions("far.example.net");
  const observed = report({
    texts: { "far.example.net": ["v=TLSRPTv1; rua=mailto:tls@reports.example.net"] },
    policy: { mostAttempts: 1 },
  });
  await untilEnded();
  await expect.poll(() => observed).toMatchObject([{ kind: "tls-report", by: "mail", outcome: "failed" }]);
});
