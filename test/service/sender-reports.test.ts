import { createHmac, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeBounceToken, makeReportLocalPart, makeReportToken } from "../../services/core/mail/tokens.ts";
import { TAKEN_WITHIN_A_DAY } from "../../services/operations/mail/reports/count-report.ts";
import { readSenderReports } from "../../services/operations/mail/reports/show-reports.ts";
import { readToldKinds } from "../../services/operations/mail/told-events.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { findInstanceByName, removeInstanceDomain } from "../../services/store/mail/instances/instances.ts";
import { purgeReports } from "../../services/store/mail/reports/report-retention.ts";
import { addWebhook, listWebhookBatches, replayWebhookBatch } from "../../services/store/mail/tracking/webhooks.ts";
import { start as startTracking } from "../../services/tracking/main.ts";
import { type AnsweringResolver, startAnsweringResolver } from "../support/answering-resolver.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { aggregateXml, gzipped, reportMessage, tlsReportJson } from "../support/sender-reports.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { zipOf } from "../support/zip.ts";

const BOUNCE_DOMAIN = "bounces.example.net";
const OTHERS_DOMAIN = "other.example.net";

/** A reporter of config/known-reporters.json. */
const KNOWN = { address: "noreply-dmarc-support@google.com", domain: "google.com" };
const key = generateKeyPairSync("rsa", {
  modulusLength: 1_024,
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

let resolver: AnsweringResolver;
const dataDir = makeDataDir();
let stack: MailStack;
let mx: string;
let tracking: string;
let othersId: number;
let hookServer: Server;
/** What the servers of each instance's webhook were told. */
const told: { instancia: string; eventos: Record<string, unknown>[]; body: string; signature: string }[] = [];
const observed: Observation[] = [];

beforeAll(async () => {
  resolver = await startAnsweringResolver();
  for (const domain of [KNOWN.domain, "stranger.example.net"]) {
    const name = `s._domainkey.${domain}`;
    resolver.says.set(name, [`${name} 60 TXT "v=DKIM1; k=rsa; p=${key.publicKey.toString("base64")}"`]);
  }
  stack = await startMailStack([], {
    ...{ PALOMAR_DATA_DIR: dataDir, PALOMAR_BOUNCE_DOMAIN: BOUNCE_DOMAIN },
    ...{ PALOMAR_RESOLVER: resolver.address, PALOMAR_FETCH_ALLOW: "127.0.0.0/8" },
  });
  const { observe } = stack.context;
  Object.assign(stack.context, {
    observe: (observation: Observation) => {
      observed.push(observation);
      observe(observation);
    },
  });
  const { db, keyRing } = stack.context;
  const others = { name: "others", host: "others.test", key: "key-of-the-others", archive: false };
  await addTestInstance(db, keyRing, { ...others, domains: [OTHERS_DOMAIN] });
  othersId = (await findInstanceByName(db, "others"))!.id;
  hookServer = createServer(async (asked, answer) => {
    const chunks: Buffer[] = [];
    for await (const chunk of asked) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    told.push({ ...JSON.parse(body), body, signature: String(asked.headers["palomar-signature"]) });
    answer.writeHead(200).end();
  });
  await new Promise<void>((resolve) => hookServer.listen(0, "127.0.0.1", resolve));
  mx = (await stack.run(startBounce)).addresses.mx!;
  tracking = (await stack.run(startTracking)).addresses.tracking!;
});

afterAll(async () => {
  expect(stack?.failures).toEqual([]);
  await stack?.stop();
  await new Promise((resolve) => (hookServer ? hookServer.close(resolve) : resolve(undefined)));
  await resolver?.stop();
  removeDataDir(dataDir);
});

const db = () => stack.context.db;
const ours = () => ({ instanceId: stack.instanceId, domain: TEST_DOMAIN });
const tokenOf = (sender = ours(), keyRing = stack.context.keyRing) => makeReportToken(keyRing, sender);
const addressOf = (sender = ours()) => `${makeReportLocalPart("dmarc", tokenOf(sender))}@${BOUNCE_DOMAIN}`;
const view = (sender = ours()) =>
  readSenderReports(
    db(),
    { ...sender, days: 30 },
    { bounceDomain: BOUNCE_DOMAIN, names: async () => new Map([["192.0.2.77", "mail-1.google.com"]]) },
  );

/** @param signer the domain that signs it; undefined: nobody */
async function send(message: string, rcptTo = addressOf(), signer?: string): Promise<void> {
  const [host, port] = mx.split(":") as [string, string];
  const transport = createTransport({ host, port: Number(port), tls: { rejectUnauthorized: false } });
  await transport.sendMail({
    envelope: { from: "dmarc@receiver.example.net", to: [rcptTo] },
    raw: message,
    ...(signer && { dkim: { domainName: signer, keySelector: "s", privateKey: key.privateKey } }),
  });
  transport.close();
}

/** Of a known reporter, unless something else is said. */
const report = (
  aggregate: Parameters<typeof aggregateXml>[0],
  rcptTo?: string,
  { from = KNOWN.address, signer = KNOWN.domain }: { readonly from?: string; readonly signer?: string | null } = {},
) => {
  const message = reportMessage(gzipped(aggregateXml({ domain: TEST_DOMAIN, ...aggregate })));
  return send(message.replace(/^From: .*/, `From: ${from}`), rcptTo, signer ?? undefined);
};
const untilQuiet = () =>
  eventually(
    async () => (await db()("inbound_messages").whereIn("state", ["waiting", "leased"])).length,
    (left) => left === 0,
  );
const dropped = () =>
  observed.flatMap((one) => (one.kind === "inbound-dropped" && one.recipientClass === "report" ? [one.reason] : []));

describe("a report to the address of a sender domain", () => {
  test("is stored as rows, added up by day, and named", async () => {
    await report({
      id: "first",
      policy: "none",
      records: [
        { source: "192.0.2.1", count: 90, spf: "fail", returnPath: BOUNCE_DOMAIN },
        { source: "192.0.2.1", count: 10, dkim: "fail", spf: "fail", returnPath: BOUNCE_DOMAIN },
        { source: "192.0.2.2", count: 5, dkim: "fail", spf: "fail", signedBy: "amazonses.com" },
        { source: "192.0.2.77", count: 4, dkim: "fail", spf: "fail" },
        { source: "2001:db8::5", count: 3, dkim: "fail", spf: "fail", reason: "mailing_list" },
        { source: "192.0.2.9", count: 2, dkim: "fail", spf: "fail", disposition: "reject", from: `a.${TEST_DOMAIN}` },
        { source: "192.0.2.10", count: 1_000, from: OTHERS_DOMAIN },
      ],
    });
    await untilQuiet();
    expect(await db()("dmarc_reports").first("reporter", "report_id", "messages", "left_out", "rows")).toEqual({
      ...{ reporter: "receiver", report_id: "first", messages: 114, left_out: 1_000, rows: 6 },
    });
    expect(await db()("dmarc_rows").where({ source: "192.0.2.9" }).first("header_from", "disposition")).toEqual({
      ...{ header_from: `a.${TEST_DOMAIN}`, disposition: "reject" },
    });
    const { dmarc } = await view();
    expect(dmarc).toMatchObject({
      ...{ reports: 1, reporters: 1, days: 1, policy: "none", messages: 114, passing: 90 },
      // Of the 10 that failed here, of Amazon SES and of Google; the list is let through; nobody knows the last one.
      ...{ lostOfSenders: 10 + 5 + 4, lostOfOthers: 2, overridden: 3 },
      proposal: { kind: "wait", policy: "quarantine", because: "failing" },
    });
    expect(dmarc.sources.map(({ source, sender, own, isSender }) => [source, sender, own, isSender])).toEqual([
      ["192.0.2.1", undefined, true, true],
      ["192.0.2.2", "Amazon SES", false, true],
      ["192.0.2.77", "Google Workspace", false, true],
      ["2001:db8::5", undefined, false, false],
      ["192.0.2.9", undefined, false, false],
    ]);
    const counted = observed.find((one) => one.kind === "report-counted");
    expect(counted).toMatchObject({ ...ours(), report: "dmarc", count: 114, newlyPassing: ["192.0.2.1"] });
    expect(counted?.kind === "report-counted" && counted.newlyFailing).toHaveLength(5);
  });

  test("counts once, whoever sends it again and however it is packed", async () => {
    const again = aggregateXml({ domain: TEST_DOMAIN, id: "first", records: [{ count: 500 }] });
    await send(reportMessage(zipOf({ "again.xml": again })));
    await untilQuiet();
    expect((await view()).dmarc.messages).toBe(114);
    expect(dropped()).toContain("duplicate");
  });

  test("tells of a source only what it had never done", async () => {
    observed.length = 0;
    await report({
      id: "second",
      records: [
        { source: "192.0.2.2", count: 1 },
        { source: "192.0.2.1", count: 1 },
      ],
    });
    await untilQuiet();
    expect(observed.find((one) => one.kind === "report-counted")).toMatchObject({
      ...{ newlyPassing: ["192.0.2.2"], newlyFailing: [] },
    });
  });

  test("proposes the next policy once its mail passed for long enough", async () => {
    const clean = { instanceId: othersId, domain: OTHERS_DOMAIN };
    const proposal = async () => (await view(clean)).dmarc.proposal;
    expect(await proposal()).toEqual({ kind: "unknown" });
    for (let day = 1; day <= 21; day++) {
      const aggregate = { id: `day ${day}`, domain: OTHERS_DOMAIN, policy: "quarantine" };
      await report({ ...aggregate, records: [{ count: 50 }] }, addressOf(clean));
    }
    await untilQuiet();
    // As they would have come, one a day.
    await db().raw("update dmarc_reports set day = current_date - substr(report_id, 5)::int where domain = ?", [
      OTHERS_DOMAIN,
    ]);
    expect(await proposal()).toEqual({ kind: "ready", policy: "reject" });
    await report(
      {
        id: "bad day",
        domain: OTHERS_DOMAIN,
        policy: "quarantine",
        records: [{ count: 9, dkim: "fail", spf: "fail" }],
      },
      addressOf(clean),
    );
    await untilQuiet();
    expect(await proposal()).toEqual({ kind: "wait", policy: "reject", because: "failing" });
  });
});

describe("a webhook", () => {
  const KINDS = readToldKinds(["origen_pasa", "origen_falla"]);
  const hook = (instanceId: number, name: string, kinds: readonly number[] | null) =>
    addWebhook(db(), stack.context.keyRing, instanceId, {
      ...{ name, kinds, campaigns: null, condition: null, isFull: name !== "short" },
      url: `http://127.0.0.1:${(hookServer.address() as AddressInfo).port}/${name}`,
    });
  const events = async (instancia = "test") =>
    told.filter((one) => one.instancia === instancia).flatMap((one) => one.eventos);
  const source = "192.0.2.150";

  test("is told once of a source and a verdict, signed, and again where it asks for it", async () => {
    const kinds = KINDS.ok ? KINDS.value : [];
    const secret = await hook(stack.instanceId, "sources", kinds);
    await hook(stack.instanceId, "usual", null);
    await hook(othersId, "sources", kinds);
    const failing = { source, dkim: "fail", spf: "fail", signedBy: "amazonses.com" } as const;
    await report({ id: "hook 1", records: [failing, { ...failing, count: 9 }] });
    await report({ id: "hook 2", records: [failing] });
    await report({ id: "hook 3", records: [{ source, signedBy: "amazonses.com", returnPath: BOUNCE_DOMAIN }] });
    await report({ id: "hook 4", records: [{ source }, failing] });
    const found = await eventually(events, ({ length }) => length === 2);
    const about = { email: "", campania: "", campana_id: null, eeid: null, dominio: TEST_DOMAIN, origen: source };
    expect(found).toMatchObject([
      { ...about, evento: "origen_falla", sender: "Amazon SES", dkim_domain: "amazonses.com", reporter: "Receiver" },
      { ...about, evento: "origen_pasa", spf_domain: BOUNCE_DOMAIN },
    ]);
    const { body, signature } = told[0]!;
    const [, seconds, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature)!;
    expect(mac).toBe(createHmac("sha256", secret!).update(`${seconds}.${body}`).digest("hex"));
    const page = { limit: 10 };
    const batches = await eventually(
      () => listWebhookBatches(db(), stack.instanceId, page, "sources"),
      (log) => log.length > 0 && log.every(({ state }) => state === "delivered"),
    );
    expect(await replayWebhookBatch(db(), stack.instanceId, batches[0]!.id, "sources")).toBe(true);
    await eventually(events, ({ length }) => length > 2);
    expect(await listWebhookBatches(db(), stack.instanceId, page, "usual")).toEqual([]);
  });

  test("is told nothing by reports that do not count, of another's domain, or of another's sources", async () => {
    await untilQuiet();
    told.length = 0;
    const records = [{ source: "192.0.2.151" }];
    await report({ id: "hook unsigned", records }, undefined, { signer: null });
    await report({ id: "hook late", daysAgo: 6, records });
    await report({ id: "hook theirs", domain: OTHERS_DOMAIN, records });
    await report({ id: "hook row", records: [{ source: "192.0.2.151", from: OTHERS_DOMAIN }] });
    await untilQuiet();
    // What is told comes in order: when this is there, so is what was told before.
    await report({ id: "hook last", records: [{ source: "192.0.2.152" }] });
    const found = await eventually(events, ({ length }) => length > 0);
    expect(found.map(({ origen }) => origen)).toEqual(["192.0.2.152"]);
    expect(await events("others")).toEqual([]);
    await db()("webhooks").del();
    const gone = ["hook 1", "hook 2", "hook 3", "hook 4", "hook unsigned", "hook late", "hook row", "hook last"];
    await db()("dmarc_reports").whereIn("report_id", gone).del();
    for (const table of ["dmarc_days", "dmarc_sources"])
      await db()(table).whereRaw("source >= '192.0.2.150'").whereRaw("source <= '192.0.2.152'").del();
  });
});

describe("what strangers and other customers write", () => {
  test("is shown, and nothing is concluded from it, without the signature of a known reporter in time", async () => {
    observed.length = 0;
    const before = (await view()).dmarc;
    const records = [
      { source: "203.0.113.9", count: 1_000_000_000, returnPath: BOUNCE_DOMAIN, signedBy: "amazonses.com" },
      { source: "203.0.113.9", count: 1, dkim: "fail", spf: "fail", signedBy: "amazonses.com" } as const,
    ];
    const forged = { records, policy: "quarantine" };
    await report({ ...forged, id: "unsigned" }, undefined, { signer: null });
    await report({ ...forged, id: "signed by another" }, undefined, { signer: "stranger.example.net" });
    const stranger = { from: "dmarc@stranger.example.net", signer: "stranger.example.net" };
    await report({ ...forged, id: "of a stranger" }, undefined, stranger);
    await report({ ...forged, id: "two senders" }, undefined, {
      from: `a@stranger.example.net\r\nFrom: ${KNOWN.address}`,
    });
    await report({ ...forged, id: "too late", daysAgo: 6 });
    await untilQuiet();
    const { dmarc } = await view();
    expect(dmarc).toMatchObject({ reports: before.reports + 5, messages: before.messages + 5 * 1_000_000_001 });
    expect(dmarc).toMatchObject({ counted: before.counted, policy: before.policy, proposal: before.proposal });
    const forgedSource = { source: "203.0.113.9", own: false, isSender: false, hasPassed: false, sender: undefined };
    expect(dmarc.sources.find(({ source }) => source === "203.0.113.9")).toMatchObject(forgedSource);
    expect(dmarc).toMatchObject({ countedReports: before.countedReports });
    expect(dmarc.received.slice(0, 5).map(({ counts, whyNot }) => [counts, whyNot])).toEqual([
      [false, "late"],
      ...Array.from({ length: 4 }, () => [false, "unsigned"]),
    ]);
    expect(before.received.every(({ counts, whyNot }) => counts && whyNot === undefined)).toBe(true);
    const newlyPassing = observed.flatMap((one) => (one.kind === "report-counted" ? [one.newlyPassing] : []));
    expect(newlyPassing).toEqual([[], [], [], [], []]);
    expect(await db()("dmarc_reports").where({ report_id: "too late" }).first("signed_by", "counts")).toEqual({
      ...{ signed_by: KNOWN.domain, counts: false },
    });
    await db()("dmarc_reports")
      .whereIn("report_id", ["unsigned", "signed by another", "of a stranger", "two senders", "too late"])
      .del();
    await db()("dmarc_days").where({ source: "203.0.113.9" }).del();
    await db()("dmarc_sources").where({ source: "203.0.113.9" }).del();
  });

  test("does not take the place of the report that it calls itself", async () => {
    const named = { id: "the same name", records: [{ source: "192.0.2.44" }] };
    await report(named, undefined, { signer: null });
    await report(named);
    await report(named, undefined, { signer: null });
    await report(named);
    await untilQuiet();
    const stored = db()("dmarc_reports").where({ report_id: named.id });
    expect(await stored.clone().orderBy("id").select("signed_by", "counts")).toEqual([
      { signed_by: "", counts: false },
      { signed_by: KNOWN.domain, counts: true },
    ]);
    await stored.del();
    await db()("dmarc_days").where({ source: "192.0.2.44" }).del();
    await db()("dmarc_sources").where({ source: "192.0.2.44" }).del();
  });

  describe("a report whose key cannot be looked up for now", () => {
    const name = `s._domainkey.${KNOWN.domain}`;
    const source = "192.0.2.45";
    const putOff = () => db()("inbound_messages").where({ state: "leased", lease_owner: null });
    const stored = (id = "in an outage%") => db()("dmarc_reports").whereLike("report_id", id);
    /** Those that are due when their time has come, after so many attempts. */
    const untilPutOff = (count: number, attempts: number) =>
      eventually(
        () => putOff().select("attempts", db().raw("lease_until - now() > interval '50 s' as waits")),
        (rows) => rows.length === count && rows.every((row) => row.attempts === attempts && row.waits),
      );
    const comeTheirTime = () => putOff().update({ lease_until: new Date(0) });

    test("waits for it, is not asked about meanwhile, and keeps no other waiting", async () => {
      const answer = resolver.says.get(name)!;
      resolver.says.set(name, "SERVFAIL");
      for (let n = 1; n <= 4; n++) await report({ id: `in an outage ${n}`, records: [{ source }] });
      await untilPutOff(4, 1);
      const asked = resolver.questions.length;
      await report({ id: "in an outage, of nobody known", records: [{ source }] }, undefined, { signer: null });
      await eventually(
        () => stored().pluck("signed_by"),
        (signers) => signers.length === 1 && signers[0] === "",
      );
      expect(resolver.questions).toHaveLength(asked);
      resolver.says.set(name, answer);
      await comeTheirTime();
      await untilQuiet();
      expect(await stored("in an outage _").select("signed_by", "counts")).toEqual(
        Array(4).fill({ signed_by: KNOWN.domain, counts: true }),
      );
      await stored().del();
    });

    test("is shown as one of nobody known after the last attempt", async () => {
      const answer = resolver.says.get(name)!;
      resolver.says.set(name, "SERVFAIL");
      await report({ id: "in an outage", records: [{ source }] });
      for (let attempts = 1; attempts <= 4; attempts++) {
        await untilPutOff(1, attempts);
        await comeTheirTime();
      }
      await untilQuiet();
      resolver.says.set(name, answer);
      expect(await stored().select("signed_by", "counts")).toEqual([{ signed_by: "", counts: false }]);
      await stored().del();
      for (const table of ["dmarc_days", "dmarc_sources"]) await db()(table).where({ source }).del();
    });
  });

  test("about another's domain counts for nothing, for either", async () => {
    const before = await view({ instanceId: othersId, domain: OTHERS_DOMAIN });
    await report({ id: "theirs", domain: OTHERS_DOMAIN, records: [{ count: 7_000 }] });
    // Above the sender domain lies the domain of everybody in it.
    await report({ id: "above", domain: "example.org", records: [{ count: 7_000, from: TEST_DOMAIN }] });
    await send(reportMessage(gzipped(tlsReportJson({ id: "theirs", domain: OTHERS_DOMAIN }))));
    await untilQuiet();
    expect(dropped().filter((reason) => reason === "other-domain")).toHaveLength(3);
    expect(await view({ instanceId: othersId, domain: OTHERS_DOMAIN })).toEqual(before);
    expect((await view()).dmarc.messages).toBe(116);
  });

  test("to an address that nobody signed is refused in the session", async () => {
    const forged = makeReportToken(KeyRing.ofSecret("another secret"), ours());
    for (const token of [forged, "aaaa.bbbb", tokenOf().slice(0, -1)]) {
      const refused = await report({ id: "x" }, `dmarc+${token}@${BOUNCE_DOMAIN}`).catch((error) => error);
      expect(refused).toMatchObject({ responseCode: 550 });
    }
  });

  test("that is hostile is put into the sample with its reason, and nothing waits for it", async () => {
    observed.length = 0;
    const laughs = `<!DOCTYPE a [<!ENTITY a "a">]>${aggregateXml({ domain: TEST_DOMAIN })}`;
    await send(reportMessage(gzipped(laughs)));
    await send(reportMessage(gzipped(`<feedback>${" ".repeat(64 * 2 ** 20)}`)));
    await send("Subject: Hello\r\n\r\nJust words.\r\n");
    await report({ id: "after all that", records: [{ count: 1 }] });
    await untilQuiet();
    expect(dropped().sort()).toEqual(["document-type", "no-report", "too-large"]);
    expect((await view()).dmarc.messages).toBe(117);
    expect(await db()("inbound_messages").where({ state: "quarantined" })).toEqual([]);
  });

  test("does not hold up bounces, however long it takes to read", async () => {
    const costly = gzipped(`<feedback>${"<a/>".repeat(4 * 2 ** 20 - 100)}</feedback>`);
    observed.length = 0;
    for (let n = 0; n < 4; n++) await send(reportMessage(costly));
    const token = makeBounceToken(stack.context.keyRing, { deliveryId: 1, expiresAt: new Date(Date.now() + 864e5) });
    await send("Subject: Returned\r\n\r\nNobody here.\r\n", `${token}@${BOUNCE_DOMAIN}`);
    await untilQuiet();
    const kinds = observed.flatMap((one) =>
      one.kind === "inbound-applied" || (one.kind === "inbound-dropped" && one.recipientClass === "report")
        ? [one.kind]
        : [],
    );
    expect(kinds.filter((kind) => kind === "inbound-dropped")).toHaveLength(4);
    expect(kinds.at(-1)).toBe("inbound-dropped");
  });

  test("from one reporter is bounded within a day, and what others write in its name keeps nothing out that it signs", async () => {
    const taken = (signedBy: string) =>
      db().raw(
        `insert into dmarc_reports (instance_id, domain, reporter, contact, report_id, policy_domain, policy, begins_at, ends_at, day, rows, messages, left_out, signed_by)
         select ?, ?, 'flood', '', ? || n, ?, '{"p":"none"}', now(), now(), current_date, ?, 0, 0, ? from generate_series(1, ?::int) n`,
        [
          ...[stack.instanceId, TEST_DOMAIN, `of ${signedBy} `, TEST_DOMAIN],
          ...[TAKEN_WITHIN_A_DAY.rows / TAKEN_WITHIN_A_DAY.ofReporter, signedBy, TAKEN_WITHIN_A_DAY.ofReporter],
        ],
      );
    const unsigned = { signer: null };
    observed.length = 0;
    await taken("");
    await report({ id: "unsigned too many", reporter: "Flood", records: [{ count: 1_000 }] }, undefined, unsigned);
    await report({ id: "signed", reporter: "Flood", records: [{ count: 1 }] });
    await untilQuiet();
    expect(dropped()).toEqual(["too-many-reports"]);
    expect((await view()).dmarc.messages).toBe(118);
    await db()("dmarc_reports").where({ reporter: "flood", signed_by: "" }).del();
    await taken(KNOWN.domain);
    await report({ id: "signed too many", reporter: "Another name", records: [{ count: 1_000 }] });
    await report({ id: "of somebody else", reporter: "Calm", records: [{ count: 1 }] }, undefined, unsigned);
    await untilQuiet();
    expect(dropped()).toEqual(["too-many-reports", "too-many-reports"]);
    expect((await view()).dmarc.messages).toBe(119);
  });

  test("about a domain that is a customer's no more goes with it", async () => {
    const gone = { instanceId: othersId, domain: OTHERS_DOMAIN };
    await removeInstanceDomain(db(), othersId, OTHERS_DOMAIN);
    expect(await db()("dmarc_reports").where({ domain: OTHERS_DOMAIN })).toEqual([]);
    observed.length = 0;
    await report({ id: "late", domain: OTHERS_DOMAIN }, addressOf(gone));
    await untilQuiet();
    expect(dropped()).toEqual(["unknown-domain"]);
  });
});

describe("a report about TLS", () => {
  const failures = [{ mx: "mx1.sender.example.org", result: "certificate-expired", count: 4 }];
  const post = (body: Buffer | string, token = tokenOf(), type = "application/tlsrpt+gzip") =>
    fetch(`${tracking}/r/${token}`, {
      method: "POST",
      body: new Uint8Array(Buffer.from(body)),
      headers: { "content-type": type },
    });

  test("comes by mail or by HTTPS, and counts once", async () => {
    const json = tlsReportJson({ id: "tls 1", domain: TEST_DOMAIN, successes: 40, failures });
    expect((await post(gzipped(json))).status).toBe(201);
    await untilQuiet();
    await send(reportMessage(gzipped(json)), `tlsrpt+${tokenOf()}@${BOUNCE_DOMAIN}`);
    const other = tlsReportJson({ id: "tls 2", domain: TEST_DOMAIN, successes: 1 });
    expect((await post(other, tokenOf().toUpperCase(), "application/tlsrpt+json")).status).toBe(201);
    await untilQuiet();
    expect((await view()).tls).toEqual({
      ...{ reports: 2, reporters: 1, days: 1, successes: 41 },
      failures: [
        { exchanger: "mx1.sender.example.org", result: "certificate-expired", policyType: "sts", sessions: 4 },
      ],
    });
  });

  test("is taken by HTTPS from others, whatever one source posts", async () => {
    const from = (localAddress: string, body: string) =>
      new Promise<number>((resolve, reject) => {
        const headers = { "content-type": "application/tlsrpt+json" };
        const to = { method: "POST", localAddress, headers };
        request(`${tracking}/r/${tokenOf()}`, to, (reply) => resolve(reply.resume().statusCode!))
          .on("error", reject)
          .end(body);
      });
    const posts: number[] = [];
    for (let n = 0; n < 205; n++) posts.push(await from("127.0.0.2", "{}"));
    expect(posts.slice(0, 20)).toEqual(Array(20).fill(400));
    expect(posts.slice(20)).toEqual(Array(185).fill(429));
    const honest = tlsReportJson({ id: "tls 3", domain: TEST_DOMAIN, successes: 1 });
    expect(await from("127.0.0.9", honest)).toBe(201);
    expect(await from("127.0.0.9", aggregateXml({ domain: TEST_DOMAIN }))).toBe(400);
    await untilQuiet();
    expect((await view()).tls.successes).toBe(42);
  });

  test("is taken by HTTPS while another source sends slowly", async () => {
    const { hostname, port } = new URL(tracking);
    const slow = Array.from({ length: 16 }, () => {
      const socket = connect({ host: hostname, port: Number(port), localAddress: "127.0.0.3" });
      const head = `POST /r/${tokenOf()} HTTP/1.1\r\nHost: a\r\nContent-Type: application/tlsrpt+json\r\n`;
      socket.on("error", () => {}).write(`${head}Content-Length: 100\r\n\r\n{`);
      return socket;
    });
    const isGone = Promise.all(slow.slice(0, 4).map((socket) => once(socket, "close")));
    await Promise.all(slow.map((socket) => once(socket, "connect")));
    expect((await post(gzipped(tlsReportJson({ id: "tls 4", domain: TEST_DOMAIN, successes: 1 })))).status).toBe(201);
    await untilQuiet();
    await isGone;
    for (const socket of slow) socket.destroy();
  });

  test("is refused by HTTPS with a wrong token, of another type, or when it is too large", async () => {
    expect((await post("x", "wrong")).status).toBe(400);
    expect((await post("x", tokenOf(), "text/plain")).status).toBe(415);
    expect((await post(Buffer.alloc(3 * 2 ** 20))).status).toBe(413);
    expect((await fetch(`${tracking}/r/${tokenOf()}`)).status).toBe(405);
  });
});

test("what is old is forgotten: reports with their rows before what they add up to", async () => {
  expect((await view()).dmarc.messages).toBe(119);
  await db()("dmarc_reports").update({ received_at: db().raw("now() - interval '91 days'") });
  await purgeReports(db(), { reportDays: 90, dayDays: 400 });
  expect(await db()("dmarc_rows")).toEqual([]);
  expect((await view()).dmarc.messages).toBe(119);
  await db()("dmarc_days").update({ day: db().raw("day - 500") });
  await db()("dmarc_sources").update({ last_day: db().raw("last_day - 500") });
  while ((await purgeReports(db(), { reportDays: 90, dayDays: 400 })) > 0);
  expect((await view()).dmarc.messages).toBe(0);
});
