import { describe, expect, test } from "vitest";
import {
  type PresentRecords,
  planSetup,
  type SetupItem,
  type SetupPart,
  type SetupWants,
  setupQuestions,
} from "../../../../../services/core/mail/domain-setup/domain-setup.ts";
import { STS_WITHDRAWN, stsPolicyId, stsPolicyText } from "../../../../../services/core/mail/domain-setup/mta-sts.ts";
import { domainConnectTemplate, zoneFileSnippet } from "../../../../../services/core/mail/domain-setup/setup-files.ts";

const RECORD = "v=DKIM1; k=rsa; p=MIGfMA0";
const WANTS: SetupWants = {
  domain: "example.org",
  bounceDomain: "bounces.example.net",
  hostname: "mx.example.net",
  keys: [{ selector: "palomar", record: RECORD, state: "signing" }],
  reports: { dmarc: "dmarc@bounces.example.net", tls: "tls@bounces.example.net" },
  tracking: { host: "links.example.org", target: "track.example.net" },
  sts: { policy: { mode: "testing", exchangers: ["mail.example.org"] }, target: "track.example.net" },
  flatten: false,
};
const LOOKUPS = { texts: async () => [], addresses: async () => ["192.0.2.1"], exchangers: async () => ["mx"] };

type Present = Readonly<Record<string, readonly string[] | Partial<PresentRecords>>>;

async function plan(present: Present, wants: Partial<SetupWants> = {}): Promise<SetupItem[]> {
  const read = ({ name, type }: { name: string; type: string }): PresentRecords => {
    const found = present[`${name} ${type}`] ?? [];
    return Symbol.iterator in found ? { values: found, answered: true } : { values: [], answered: true, ...found };
  };
  return planSetup({ ...WANTS, ...wants }, read, LOOKUPS);
}

async function planned(part: SetupPart, present: Present, wants: Partial<SetupWants> = {}) {
  return (await plan(present, wants)).filter((item) => item.part === part);
}

test("everything is missing from a domain that has nothing, and each question is asked", async () => {
  const items = await plan({});
  expect(items.map(({ part, name, type, action }) => `${action} ${part} ${name} ${type}`)).toEqual([
    "add spf example.org TXT",
    "add dkim palomar._domainkey.example.org TXT",
    "add dmarc _dmarc.example.org TXT",
    "add bounce-mx bounces.example.net MX",
    "add bounce-spf bounces.example.net TXT",
    "add dmarc-reports *._report._dmarc.bounces.example.net TXT",
    "add tracking links.example.org CNAME",
    "add mta-sts-host mta-sts.example.org CNAME",
    "add mta-sts _mta-sts.example.org TXT",
    "add tls-rpt _smtp._tls.example.org TXT",
  ]);
  const asked = new Set(setupQuestions(WANTS).map(({ name, type }) => `${name} ${type}`));
  for (const { name, type } of items) expect(asked).toContain(`${name} ${type}`);
});

test("what was asked for and cannot be had is an item that says why, and asks for nothing else", async () => {
  const unserved = [
    { part: "tracking", name: "links.example.org", type: "CNAME", kind: "no-tracking-service" },
    { part: "mta-sts-host", name: "mta-sts.example.org", type: "CNAME", kind: "no-tracking-service" },
    { part: "mta-sts", name: "_mta-sts.example.org", type: "TXT", kind: "no-exchanger" },
  ] as const;
  const items = await plan({}, { tracking: undefined, sts: undefined, unserved });
  expect(items.filter(({ action }) => action === "ask")).toEqual(
    unserved.map(({ kind, ...place }) => ({
      ...{ ...place, action: "ask", before: undefined, after: undefined },
      fault: { kind, at: place.name },
    })),
  );
});

test("what was proposed is kept once it is there", async () => {
  const present: Record<string, string[]> = {};
  for (const { name, type, after } of await plan({})) {
    present[`${name} ${type}`] = [...(present[`${name} ${type}`] ?? []), after!];
  }
  expect((await plan(present)).filter(({ action }) => action !== "keep")).toEqual([]);
});

describe("SPF", () => {
  test.each([
    [["v=spf1 mx -all"], "modify", "v=spf1 mx include:bounces.example.net -all", undefined],
    [["v=spf1 include:bounces.example.net -all"], "keep", "v=spf1 include:bounces.example.net -all", undefined],
    [["other", "google-site-verification=x"], "add", "v=spf1 include:bounces.example.net ~all", undefined],
    [["v=spf1 mx -all", "v=spf1 a -all"], "ask", undefined, "several-policies"],
    [["v=spf1 ipv4:192.0.2.1 -all"], "ask", undefined, "malformed"],
    [
      [`v=spf1 ${Array.from({ length: 10 }, (_, n) => `a:${n}.example`).join(" ")} -all`],
      "ask",
      expect.stringContaining("include:bounces.example.net"),
      "too-many-lookups",
    ],
  ])("%j: %s", async (texts, action, after, fault) => {
    const [item] = await planned("spf", { "example.org TXT": texts });
    expect(item).toMatchObject({ action, after });
    expect(item!.fault?.kind).toBe(fault);
  });

  test("the bounce domain as a sender domain does not include itself", async () => {
    expect(await planned("spf", {}, { domain: "bounces.example.net" })).toEqual([]);
  });
});

describe("DMARC", () => {
  const OURS = "mailto:dmarc@bounces.example.net";
  test.each([
    [[], "add", `v=DMARC1; p=none; rua=${OURS}`],
    [["v=DMARC1; p=reject"], "modify", `v=DMARC1; p=reject; rua=${OURS}`],
    [
      ["v=DMARC1;p=quarantine;rua=mailto:a@example.com!10m;pct=50"],
      "modify",
      `v=DMARC1; p=quarantine; rua=mailto:a@example.com!10m,${OURS}; pct=50`,
    ],
    [
      [`v=DMARC1;p=none;rua=mailto:x@example.com, ${OURS}!5m`],
      "keep",
      `v=DMARC1;p=none;rua=mailto:x@example.com, ${OURS}!5m`,
    ],
    [["v=DMARC1; p=none", "v=DMARC1; p=reject"], "ask", undefined],
  ])("%j: %s", async (texts, action, after) => {
    expect(await planned("dmarc", { "_dmarc.example.org TXT": texts })).toMatchObject([{ action, after }]);
  });

  test("an address that another secret signed gives way to ours, and nobody else's does", async () => {
    const dmarc = "dmarc+claims.new@bounces.example.net";
    const others = "mailto:dmarc+claims2.old@bounces.example.net,mailto:a.b@example.com!10m";
    const after = `v=DMARC1; p=none; rua=${others},mailto:${dmarc}`;
    for (const ours of [
      "mailto:dmarc+claims.old@bounces.example.net!5m",
      "mailto:DMARC+claims.OLD@bounces.example.net",
    ]) {
      const records = { "_dmarc.example.org TXT": [`v=DMARC1; p=none; rua=${ours},${others}`] };
      expect(await planned("dmarc", records, { reports: { dmarc, tls: undefined } })).toMatchObject([
        { action: "modify", after },
      ]);
    }
    expect(
      await planned("dmarc", { "_dmarc.example.org TXT": [after] }, { reports: { dmarc, tls: undefined } }),
    ).toMatchObject([{ action: "keep" }]);
  });

  test("a record of its own is no weaker than the one from above", async () => {
    const present = {
      "_dmarc.example.org TXT": ["v=DMARC1; p=quarantine; sp=reject; adkim=s; rua=mailto:a@example.com"],
    };
    expect(await planned("dmarc", present, { domain: "news.example.org" })).toMatchObject([
      { action: "add", after: `v=DMARC1; p=reject; adkim=s; rua=mailto:a@example.com,${OURS}` },
    ]);
  });
});

describe("DKIM", () => {
  const name = "palomar._domainkey.example.org TXT";
  test.each([
    ["signing", [], "add"],
    ["signing", ["v=DKIM1; k=rsa; p=MIGf MA0"], "keep"],
    ["signing", ["v=DKIM1; k=rsa; p=OTHER"], "ask"],
    ["new", [], "add"],
    ["old", [], undefined],
    ["old", [RECORD], "keep"],
    ["done", [RECORD], "remove"],
    ["done", ["v=DKIM1; k=rsa; p=OTHER"], undefined],
  ] as const)("a key that is %s, with %j: %s", async (state, texts, action) => {
    const items = await planned("dkim", { [name]: texts }, { keys: [{ selector: "palomar", record: RECORD, state }] });
    expect(items.map((item) => item.action)).toEqual(action === undefined ? [] : [action]);
  });
});

describe("what is in the way is shown and left alone", () => {
  test.each<[SetupPart, Present, string]>([
    ["tracking", { "links.example.org CNAME": { others: ["A"] } }, "place-taken"],
    [
      "mta-sts",
      { "_mta-sts.example.org TXT": ["v=STSv1; id=1;"], "mta-sts.example.org CNAME": ["sts.example.com"] },
      "policy-elsewhere",
    ],
    ["mta-sts", { "_mta-sts.example.org TXT": ["v=STSv1; id=1;", "v=STSv1; id=2;"] }, "several-policies"],
    ["bounce-mx", { "bounces.example.net MX": ["0 "] }, "takes-no-mail"],
    ["bounce-spf", { "bounces.example.net TXT": ["v=spf1 a -all", "v=spf1 mx -all"] }, "several-policies"],
    ["tls-rpt", { "_smtp._tls.example.org TXT": { answered: false } }, "unanswered"],
  ])("%s", async (part, present, fault) => {
    expect(await planned(part, present)).toMatchObject([{ action: "ask", fault: { kind: fault } }]);
  });

  test("a server that lacks what others have is named", async () => {
    const present = { "_smtp._tls.example.org TXT": { differing: ["ns2.example.org"] } };
    expect(await planned("tls-rpt", present)).toMatchObject([
      { action: "add", fault: { kind: "servers-differ", at: "ns2.example.org" } },
    ]);
  });
});

describe("an MTA-STS policy that is withdrawn", () => {
  const END = { policy: STS_WITHDRAWN, target: "track.example.net" };
  const id = `v=STSv1; id=${stsPolicyId(STS_WITHDRAWN)};`;
  const [txt, host] = ["_mta-sts.example.org TXT", "mta-sts.example.org CNAME"];
  const ours = { [host]: ["track.example.net."] };
  const elsewhere = { [host]: ["sts.example.com."] };
  test.each<[Present, boolean, readonly string[]]>([
    [{}, false, []],
    [{}, true, []],
    [{ ...ours, [txt]: ["v=STSv1; id=1;"] }, false, ["keep mta-sts-host", "modify mta-sts"]],
    [{ ...ours, [txt]: ["v=STSv1; id=1;"] }, true, ["remove mta-sts-host", "remove mta-sts"]],
    [{ ...ours, [txt]: [id] }, false, ["keep mta-sts-host", "keep mta-sts"]],
    [{ ...ours, [txt]: [id] }, true, ["remove mta-sts-host", "remove mta-sts"]],
    [{ ...ours }, true, ["remove mta-sts-host"]],
    [{ [txt]: [id] }, true, ["remove mta-sts"]],
    [{ ...elsewhere, [txt]: ["v=STSv1; id=1;"] }, false, []],
    [{ ...elsewhere, [txt]: ["v=STSv1; id=1;"] }, true, []],
    [{ ...ours, [txt]: { answered: false } }, true, ["remove mta-sts-host", "ask mta-sts"]],
  ])("%j, over: %s: %j", async (present, isOver, wanted) => {
    const items = (await plan(present, { sts: { ...END, isOver } })).filter(({ part }) => /^mta-sts/.test(part));
    expect(items.map(({ part, action }) => `${action} ${part}`)).toEqual(wanted);
    const modified = items.filter(({ action }) => action === "modify");
    expect(modified.every(({ after }) => after === id)).toBe(true);
  });

  test("says that there is none", () => {
    expect(stsPolicyText(STS_WITHDRAWN)).toBe("version: STSv1\r\nmode: none\r\nmax_age: 86400\r\n");
  });
});

test("a TLS-RPT record keeps where it reports to", async () => {
  const present = { "_smtp._tls.example.org TXT": ["v=TLSRPTv1; rua=https://example.com/x"] };
  expect(await planned("tls-rpt", present)).toMatchObject([
    { action: "modify", after: "v=TLSRPTv1; rua=https://example.com/x,mailto:tls@bounces.example.net" },
  ]);
});

test("files to paste hold what is missing, and what goes in comments", async () => {
  const items = await plan({ "example.org TXT": ["v=spf1 mx -all"] });
  const file = zoneFileSnippet(items);
  expect(file).toContain('; remove: example.org. IN TXT "v=spf1 mx -all"\nexample.org. IN TXT "v=spf1 mx include');
  expect(file).toContain("bounces.example.net. IN MX 10 mx.example.net.\n");
  expect(zoneFileSnippet([{ ...items[1]!, after: `${"x".repeat(255)}"\\\u0007` }])).toBe(
    `palomar._domainkey.example.org. IN TXT "${"x".repeat(255)}" "\\"\\\\\\007"\n`,
  );
  const unknown = { ...items[1]!, action: "ask", after: "v", fault: { kind: "unanswered", at: "x" } } as const;
  expect(zoneFileSnippet([unknown])).toBe('; not looked up: palomar._domainkey.example.org. IN TXT "v"\n');
  const template = domainConnectTemplate({ providerId: "bounces.example.net", domain: "example.org" }, items);
  expect(template.records).toContainEqual({
    ...{ type: "TXT", host: "@", ttl: 3600, data: "v=spf1 mx include:bounces.example.net -all" },
    ...{ txtConflictMatchingMode: "Prefix", txtConflictMatchingPrefix: "v=spf1" },
  });
  expect(template.records).toContainEqual({ type: "CNAME", host: "links", pointsTo: "track.example.net", ttl: 3600 });
  // The bounce domain is none of this domain's.
  expect(JSON.stringify(template.records)).not.toContain('"MX"');
});

test("a key is for all services, and what a published one says of them stays", async () => {
  const name = "palomar._domainkey.example.org TXT";
  expect(await planned("dkim", {})).toMatchObject([{ action: "add", after: expect.not.stringMatching(/\bs=/) }]);
  for (const services of ["s=email:tlsrpt", "s=*", "s=email"]) {
    const published = `v=DKIM1; k=rsa; ${services}; p=MIGfMA0`;
    expect(await planned("dkim", { [name]: [published] })).toMatchObject([{ action: "keep", after: published }]);
  }
});
