import { readFileSync } from "node:fs";
import { request } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { zoneFields } from "../support/dns-api.ts";
import { makeDataDir, removeDataDir, type StartedStack, serviceOf, startUsedStack } from "../support/stack.ts";

const MOST_RECORDS = 500_000;
const COMPANIES = 4;
/** By which a request may be held up on a machine that has nothing else to do; on others it takes long by itself. */
const LONGEST_WAIT_MS = 10_000;

const isLinux = process.platform === "linux";
let dataDir: string;
let stack: StartedStack;

beforeAll(async () => {
  if (!isLinux) return;
  dataDir = makeDataDir();
  stack = await startUsedStack(dataDir, {}, ["dns-api"]);
  for (let company = 0; company < COMPANIES; company += 1) {
    const made = await asReseller("POST", "/company", { crm_id: `c${company}`, name: "C", apikey: keyOf(company) });
    expect(made.status).toBe(200);
  }
  await asReseller("POST", "/master_zone/bounds.example.org", zoneFields({ crm_id: "demo" }));
});

afterAll(async () => {
  await stack?.stop();
  if (dataDir) removeDataDir(dataDir);
});

const keyOf = (company: number) => `key-of-company-${company}`;
const urlOf = (path: string) => `${stack.addresses.dns_api}/api/v1${path}`;
const headersOf = (key: string) => ({ Authorization: key, Reseller: stack.credentials.reseller.id });
const asReseller = (method: string, path: string, body?: unknown) =>
  callApi(method, urlOf(path), headersOf(stack.credentials.reseller.key), body);

it.skipIf(!isLinux)(
  "a zone file is refused at the record that is one too many, and read no further, nor again",
  async () => {
    const hosts = (many: number) => Array.from({ length: many }, (_, index) => `h${index} A 192.0.2.1`);
    const put = async (lines: readonly string[]) => {
      const before = processorMs();
      const { status, body } = await asReseller("PUT", "/zone_file/bounds.example.org", `${lines.join("\n")}\n`);
      return { status, msg: body.msg, spentMs: processorMs() - before };
    };
    const wrong = "wrong A nowhere";
    const readOnce = await put([...hosts(MOST_RECORDS), wrong]);
    expect(readOnce).toMatchObject({ status: 400, msg: expect.stringMatching(/^line 500001, column 9: /) });
    const refused = await put([...hosts(MOST_RECORDS + 1), wrong]);
    expect(refused).toMatchObject({
      status: 400,
      msg: `line ${MOST_RECORDS + 1}, column 1: the zone has more than ${MOST_RECORDS} records`,
    });
    expect(refused.spentMs).toBeLessThan(1.6 * readOnce.spentMs);
  },
);

it.skipIf(!isLinux)(
  "bodies of very many names of members, which are refused, hold up nobody's large request",
  async () => {
    const names = Array.from({ length: 990_000 }, (_, index) => `"${index.toString(36)}":1`);
    const crowded = gzipSync(`{${names.join(",")}}`, { level: 1 });
    let isOver = false;
    const attack = async (company: number) => {
      const statuses = new Set<number>();
      while (!isOver) statuses.add(await sendCrowded(keyOf(company), crowded));
      return [...statuses];
    };
    const change = async (from: number) => {
      const startedAt = performance.now();
      const create = Array.from({ length: 2_000 }, (_, index) => ({
        name: `b${from + index}`,
        type: "A",
        value: "192.0.2.1",
      }));
      expect(await asReseller("POST", "/rr/bounds.example.org/batch", { create })).toMatchObject({ status: 200 });
      return performance.now() - startedAt;
    };
    const aloneMs = await change(0);
    const attacks = Array.from({ length: COMPANIES }, (_, company) => attack(company));
    const besideMs = [await change(2_000), await change(4_000)];
    isOver = true;
    expect(await Promise.all(attacks)).toEqual(Array.from({ length: COMPANIES }, () => [413]));
    expect(Math.max(...besideMs)).toBeLessThan(Math.max(LONGEST_WAIT_MS, 10 * aloneMs));
  },
);

function sendCrowded(key: string, body: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { ...headersOf(key), "Content-Encoding": "gzip", "Content-Length": body.length };
    const sent = request(
      urlOf("/rr/bounds.example.org/batch"),
      { method: "POST", headers, agent: false },
      (response) => {
        response.resume();
        response.on("error", reject);
        response.on("end", () => resolve(response.statusCode ?? 0));
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Processor time of the service's process, all of its threads: unlike the clock's, nobody else's work is in it. */
function processorMs(): number {
  const pid = serviceOf(stack.process, "dns-api")!;
  const [, fields] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  // proc(5): utime and stime, in hundredths of a second.
  const [user, system] = fields!.split(" ").slice(11, 13).map(Number);
  return 10 * (user! + system!);
}
