import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";
import { processorMs } from "../support/processor-time.ts";
import { eventually } from "../support/stack.ts";

const RECORDS = 40_000;

let api: RunningApi;
beforeAll(async () => {
  api = await startApiWithCompany();
  for (const zone of ["large.example.org", "copy.example.org", "other.example.org"]) {
    await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields());
  }
});
afterAll(() => api.stop());

const lines = Array.from({ length: RECORDS }, (_, index) => `host-${index} A 192.0.2.${index % 256}`);
const file = `@ NS ns1.example.net.\n${lines.join("\n")}\n`;

test("while a large zone comes in, others are served", async () => {
  let isDone = false;
  const startedMs = processorMs();
  const imported = api.call("PUT", "/api/v1/zone_file/large.example.org", file).finally(() => {
    isDone = true;
  });
  const waitsMs: number[] = [];
  while (!isDone) {
    const askedMs = processorMs();
    const { status } = await api.call("GET", "/api/v1/soa/other.example.org");
    expect(status).toBe(200);
    waitsMs.push(processorMs() - askedMs);
    await sleep(5);
  }
  expect((await imported).body).toMatchObject({ records: RECORDS + 1, serial: 2 });
  // Parsed in one go, the file would keep everybody waiting for a third of the work that all of it is.
  expect(Math.max(...waitsMs)).toBeLessThan((processorMs() - startedMs) / 5);
  expect(waitsMs.length).toBeGreaterThan(20);
});

test("its list and its file are streamed, whole and in order, and the file goes in again", async () => {
  const { rr } = (await api.call("GET", "/api/v1/rr/large.example.org")).body;
  expect(rr).toHaveLength(RECORDS + 1);
  expect(new Set(rr.map(({ rr_id }: { rr_id: number }) => rr_id)).size).toBe(RECORDS + 1);
  const out = await api.call("GET", "/api/v1/zone_file/large.example.org");
  expect(out.headers["transfer-encoding"]).toBe("chunked");
  expect(out.text.match(/\n/g)).toHaveLength(RECORDS + 4);
  const back = await api.call("PUT", "/api/v1/zone_file/large.example.org", out.text);
  expect(back.body).toMatchObject({ records: RECORDS + 1, serial: 3 });
  const again = await api.call("GET", "/api/v1/zone_file/large.example.org");
  expect(again.text).toBe(out.text.replace(" 2 7200 ", " 3 7200 "));
});

test("a client that goes away in the middle leaves no transaction behind", async () => {
  const controller = new AbortController();
  const response = await fetch(`${api.url}/api/v1/rr/large.example.org`, {
    headers: { Authorization: "key-of-reseller-one", Reseller: "one" },
    signal: controller.signal,
  });
  await response.body?.getReader().read();
  controller.abort();
  // By when it began: "idle in transaction" is not what a transaction is while one of its statements runs.
  const transactions = () =>
    api.database
      .db("pg_stat_activity")
      .select("pid", "state", "query")
      .whereNotNull("xact_start")
      .whereRaw("datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()");
  await eventually(transactions, (open) => open.length === 0);
});
