import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";
import { fc } from "../support/property.ts";

let api: RunningApi;
let recordId: number;

beforeAll(async () => {
  api = await startApiWithCompany();
  await api.call("POST", "/api/v1/master_zone/fuzz.example.org", zoneFields());
  const record = { name: "kept", type: "MX", rr_prio: 1, value: "mail" };
  recordId = (await api.call("POST", "/api/v1/rr/fuzz.example.org", record)).body.rr_id;
});
afterAll(() => api.stop());

/** Whatever is sent, the answer is success or a refusal with a text, never an error of ours. */
async function survives(method: string, path: string, body?: unknown): Promise<void> {
  const answer = await api.call(method, path, body);
  expect(answer.status, `${method} ${path} ${JSON.stringify(body)}: ${answer.text}`).toBeLessThan(500);
  if (answer.status !== 200) {
    expect(Object.keys(answer.body)).toEqual(["msg"]);
    expect(answer.body.msg).not.toMatch(/ at .*\.[jt]s:\d+|node_modules|select |insert /);
  }
}

const anyValue = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: "binary" }),
  fc.constantFrom(
    "\0",
    "\ud800",
    ".",
    "..",
    "@",
    "*",
    "\\",
    "\\256",
    '"',
    "(",
    ";",
    "\\# 4",
    "\\# 99999999999 00",
    "-0",
  ),
  fc.constantFrom(-1, 0, 1.5, 2 ** 31, 2 ** 32, 2 ** 53, 1e308),
  fc.integer({ min: 100, max: 70_000 }).map((length) => "x".repeat(length)),
);

const OPERATIONS: readonly (readonly [string, string, Record<string, unknown>])[] = [
  ["POST", "/api/v1/company", { crm_id: "fuzz", name: "Fuzz", apikey: "fuzz-key-0123456789" }],
  ["PUT", "/api/v1/company/acme", { name: "Acme", suspended: false }],
  ["DELETE", "/api/v1/company/acme", { apikey: "wrong" }],
  ["GET", "/api/v1/company/acme", { crm_id: "acme" }],
  ["POST", "/api/v1/master_zone/other.example.org", { ...zoneFields(), serial: 7 }],
  ["PUT", "/api/v1/suspend_zone/fuzz.example.org", { crm_id: "acme" }],
  ["PUT", "/api/v1/resume_zone/fuzz.example.org", { crm_id: "acme" }],
  ["POST", "/api/v1/rr/fuzz.example.org", { name: "a", type: "A", value: "192.0.2.1", ttl: 60, rr_prio: "1" }],
  ["PUT", "/api/v1/rr/fuzz.example.org/%", { name: "a", type: "A", value: "192.0.2.1", ttl: 60, rr_prio: "1" }],
  ["POST", "/api/v1/rr/fuzz.example.org/batch", { create: [], modify: [], delete: [] }],
  ["GET", "/api/v1/zone_history/fuzz.example.org", { before: 1 }],
];

test("any value in any field", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...OPERATIONS), fc.nat(), anyValue, async ([method, path, body], which, value) => {
      const fields = Object.keys(body);
      const field = fields[which % fields.length] as string;
      await survives(method, path.replace("%", String(recordId)), { ...body, [field]: value });
    }),
    { numRuns: 600 },
  );
});

test("any body", async () => {
  const anyBody = fc.oneof(fc.json({ maxDepth: 4 }), fc.string({ unit: "binary" }), fc.uint8Array().map(Buffer.from));
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...OPERATIONS), anyBody, async ([method, path], body) => {
      await survives(method, path.replace("%", String(recordId)), body);
    }),
    { numRuns: 300 },
  );
});

test("entries of a batch", async () => {
  const fields = { name: anyValue, type: fc.constantFrom("A", "TXT", "MX", "LOC", "SVCB", "TYPE9"), value: anyValue };
  const entry = fc.record({ ...fields, ttl: anyValue, rr_prio: anyValue, rr_id: anyValue }, { requiredKeys: [] });
  const entries = fc.array(entry, { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(entries, entries, fc.array(anyValue, { maxLength: 2 }), async (create, modify, remove) => {
      await survives("POST", "/api/v1/rr/fuzz.example.org/batch", { create, modify, delete: remove });
    }),
    { numRuns: 200 },
  );
});

test("any text as the value of any type", async () => {
  const types =
    "A AAAA AFSDB APL CAA CERT CNAME CSYNC DNAME DNSKEY DS EUI48 EUI64 HINFO HTTPS LOC MX NAPTR NS OPENPGPKEY PTR RP SMIMEA SPF SRV SSHFP SVCB TLSA TXT URI TYPE65280";
  const word = fc.oneof(
    fc.nat(70_000).map(String),
    fc.string({ unit: fc.constantFrom(..."0123456789abcdef") }),
    fc.constantFrom("\\#", '"a"', "(", ")", ".", "alpn=h2"),
    fc.string(),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...types.split(" ")),
      fc.array(word, { maxLength: 6 }),
      fc.nat(),
      async (type, words, name) => {
        const prio = type === "MX" || type === "SRV" ? { rr_prio: 1 } : {};
        await survives("POST", "/api/v1/rr/fuzz.example.org", {
          name: `n${name}`,
          type,
          value: words.join(" "),
          ...prio,
        });
      },
    ),
    { numRuns: 500 },
  );
});

test("any path", async () => {
  const segment = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("%", "%zz", "%00", "..", "@", "fuzz.example.org."),
  );
  const encoded = segment.map((text) => (/^[%.@]/.test(text) ? text : encodeURIComponent(text)));
  const operation = fc.constantFrom(
    "soa",
    "rr",
    "company",
    "master_zone",
    "zone_file",
    "zone_history",
    "update_soa",
    "x",
  );
  const method = fc.constantFrom("GET", "POST", "PUT", "DELETE");
  await fc.assert(
    fc.asyncProperty(method, operation, fc.array(encoded, { maxLength: 11 }), async (verb, first, rest) => {
      if (verb === "DELETE" && rest.join("/").startsWith("fuzz.example.org")) return;
      await survives(verb, `/api/v1/${[first, ...rest].join("/")}`, verb === "GET" ? undefined : {});
    }),
    { numRuns: 400 },
  );
});

test("any zone file", async () => {
  const word = fc.constantFrom(
    "@",
    "www",
    "60",
    "IN",
    "A",
    "NS",
    "SOA",
    "TXT",
    "192.0.2.1",
    "ns1",
    "(",
    ")",
    '"',
    ";",
    "\n",
    "\n ",
    "\t",
    "$TTL",
    "$ORIGIN",
    "$GENERATE 1-9",
    "$GENERATE 0-4294967295",
    "\\",
    "\\999",
    "\\# 4",
    "1w",
    "x.",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.array(word).map((words) => words.join(" ")),
        fc.string(),
      ),
      async (text) => {
        await survives("PUT", "/api/v1/zone_file/fuzz.example.org", text);
        await survives("PUT", "/api/v1/zone_file/fuzz.example.org", `@ NS ns1.example.net.\n${text}`);
      },
    ),
    { numRuns: 200 },
  );
});

test("nothing of all that was an error of ours", () => {
  expect(api.observations.filter(({ level }) => level === "error")).toEqual([]);
});
