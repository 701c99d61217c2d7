import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { zoneFields } from "../support/dns-api.ts";
import { makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "../support/stack.ts";

/**
 * By how much the process may grow while it works on zone files, whoever sends them and however many: with what it has at
 * rest, well within its container's 1 GiB. When garbage is collected depends on how busy the machine is; some 280 MiB are usual.
 */
const MOST_GROWTH_OCTETS = 512 * 2 ** 20;

/** A neighbour's change goes on: it does not wait for all that large work to end. */
const LONGEST_CHANGE_MS = 10_000;
/** Between two changes of the neighbour: what holds one up for too long cannot pass between them, and few keep the processors free. */
const CHANGE_PAUSE_MS = 500;

const COMPANIES = 6;

const texts = (octets: number) =>
  `@ NS ns1.example.net.\n$GENERATE 1-65535 g$ TXT ${`"${"x".repeat(250)}" `.repeat(octets / 250)}\n`;

/** 117 MiB in the zone database, more than any history holds. */
const LARGEST = texts(1_750);
/** About the largest that a preview shows. */
const LARGEST_SHOWN = texts(750);

/** Of 32,000 it has 7.9 MB, of 120,000 29.8 MB: nearly what is previewed, and nearly what a body may have. */
const batch = (records: number) =>
  JSON.stringify({
    create: Array.from({ length: records }, (_, index) => ({ name: `t${index}`, type: "TXT", value: "x".repeat(200) })),
  });

describe.skipIf(process.platform !== "linux")("the memory of the DNS API's process", () => {
  let stack: StartedStack;
  let dataDir: string;
  let pid: number;
  let changes = 0;

  beforeAll(async () => {
    dataDir = makeDataDir();
    stack = await startUsedStack(dataDir, {}, ["dns-api"]);
    pid = findService("dns-api");
    for (let company = 0; company < COMPANIES; company += 1) {
      const apikey = keyOf(company);
      expect((await asReseller("POST", "/company", { crm_id: `c${company}`, name: "C", apikey })).status).toBe(200);
      const made = await asReseller("POST", `/master_zone/${zoneOf(company)}`, zoneFields({ crm_id: `c${company}` }));
      expect(made.status).toBe(200);
    }
    await asReseller("POST", "/master_zone/neighbour.example.org", zoneFields({ crm_id: "demo" }));
  }, 300_000);

  afterAll(async () => {
    await stack?.stop();
    removeDataDir(dataDir);
  });

  const zoneOf = (company: number) => `memory${company}.example.org`;
  const keyOf = (company: number) => `key-of-company-${company}`;

  const headersOf = (key: string) => ({ Authorization: key, Reseller: stack.credentials.reseller.id });
  const urlOf = (path: string) => `${stack.addresses.dns_api}/api/v1${path}`;
  const asReseller = (method: string, path: string, body?: unknown) =>
    callApi(method, urlOf(path), headersOf(stack.credentials.reseller.key), body);

  /** Sends a body; what is answered is not kept, as reading it would hold up this process. */
  function sendFile(key: string, method: string, path: string, text: string, type = "text/dns"): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { ...headersOf(key), "Content-Type": type, "Content-Length": Buffer.byteLength(text) };
      const sent = request(urlOf(path), { method, headers, agent: false }, (response) => {
        response.resume();
        response.on("error", reject);
        response.on("end", () => resolve(response.statusCode ?? 0));
      });
      sent.on("error", reject);
      sent.end(text);
    });
  }

  /** Of the stack's own processes. */
  function findService(name: string): number {
    const found = readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry))
      .find((entry) => {
        try {
          const group = Number(readFileSync(`/proc/${entry}/stat`, "utf8").split(") ")[1]?.split(" ")[2]);
          return group === stack.process.pid && readFileSync(`/proc/${entry}/cmdline`, "utf8").includes(name);
        } catch {
          return false;
        }
      });
    if (found === undefined) throw new Error(`no process of ${name}`);
    return Number(found);
  }

  const status = (field: string) =>
    Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;

  /** @returns by how much the process grew at most, and how long changes of a neighbour took meanwhile */
  async function observe(work: () => Promise<number[]>) {
    // Its largest size is counted anew from here (proc(5), clear_refs).
    writeFileSync(`/proc/${pid}/clear_refs`, "5");
    const before = status("VmRSS");
    let isOver = false;
    const working = work().finally(() => {
      isOver = true;
    });
    let slowestMs = 0;
    while (!isOver) {
      changes += 1;
      const startedAt = performance.now();
      const record = { name: `n${changes}`, type: "A", value: "192.0.2.1" };
      const { status: answered } = await asReseller("POST", "/rr/neighbour.example.org", record);
      expect(answered).toBe(200);
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      await sleep(CHANGE_PAUSE_MS);
    }
    return { statuses: (await working).sort(), growth: status("VmHWM") - before, slowestMs };
  }

  const all = (one: (index: number) => Promise<number>) =>
    Promise.all(Array.from({ length: 6 }, (_, index) => one(index)));

  it.each([
    ["previews too large to show, by one company", () => 0, LARGEST, "POST", "zone_preview", [[400]]],
    ["previews too large to show, by six", (index: number) => index, LARGEST, "POST", "zone_preview", [[400]]],
    ["the largest previews, by one company", () => 0, LARGEST_SHOWN, "POST", "zone_preview", [[200, 429]]],
    // Answers of one reseller's companies that are read at once have bounds as well: on a fast machine more of them meet.
    [
      "the largest previews, by six",
      (index: number) => index,
      LARGEST_SHOWN,
      "POST",
      "zone_preview",
      [[200], [200, 429]],
    ],
  ])(
    "grows little by %s, and a neighbour's changes go on",
    async (_, companyOf, text, method, operation, expected) => {
      const seen = await observe(() =>
        all((index) => {
          const company = companyOf(index);
          return sendFile(keyOf(company), method, `/${operation}/${zoneOf(company)}`, text);
        }),
      );
      expect(expected).toContainEqual([...new Set(seen.statuses)]);
      expect(seen.growth).toBeLessThan(MOST_GROWTH_OCTETS);
      expect(seen.slowestMs).toBeLessThan(LONGEST_CHANGE_MS);
    },
    300_000,
  );

  it.each([
    ["the largest batches that are previewed", 32_000, [200, 429]],
    ["batches too large to preview", 120_000, [413]],
  ])(
    "grows little by %s, by one company",
    async (_, records, expected) => {
      const text = batch(records);
      const seen = await observe(() =>
        all(() => sendFile(keyOf(0), "POST", `/zone_preview/${zoneOf(0)}`, text, "application/json")),
      );
      expect([...new Set(seen.statuses)]).toEqual(expected);
      expect(seen.growth).toBeLessThan(MOST_GROWTH_OCTETS);
      expect(seen.slowestMs).toBeLessThan(LONGEST_CHANGE_MS);
    },
    300_000,
  );

  it("grows little by millions of empty objects", async () => {
    const text = `{"create":[${"{},".repeat(11_000_000)}{}]}`;
    const path = `/rr/${zoneOf(0)}/batch`;
    const seen = await observe(async () => [await sendFile(keyOf(0), "POST", path, text, "application/json")]);
    expect(seen.statuses).toEqual([413]);
    expect(seen.growth).toBeLessThan(MOST_GROWTH_OCTETS);
  });

  it("does large batches about many records, several of one zone at once, and goes on with others", async () => {
    const path = (company: number) => `/rr/${zoneOf(company)}/batch`;
    const create = Array.from({ length: 20_000 }, (_, index) => ({ name: `h${index}`, type: "A", value: "192.0.2.1" }));
    const made = await asReseller("POST", path(1), { create });
    const ids: number[] = made.body.created;
    const halves = [ids.slice(0, 10_000), ids.slice(10_000)].map((half) => JSON.stringify({ delete: half }));
    // Bodies of more than 105 kB are large by themselves.
    const [wide, narrow] = halves.map((text, index) => (index === 0 ? text.padEnd(200_000) : text)) as [string, string];
    const deleted = await Promise.all([
      sendFile(keyOf(1), "POST", path(1), wide, "application/json"),
      sendFile(keyOf(1), "POST", path(1), narrow, "application/json"),
      sendFile(keyOf(2), "POST", path(2), JSON.stringify({ create }), "application/json"),
    ]);
    expect(deleted).toEqual([200, 200, 200]);
  });
});
