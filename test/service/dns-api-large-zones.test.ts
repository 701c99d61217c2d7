import { type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callApi } from "../support/api-client.ts";
import { type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";
import { withTableHeld } from "../support/held-table.ts";
import { processorMs } from "../support/processor-time.ts";
import { listWaiting } from "../support/spread-tables.ts";
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

test("PowerDNS's export of it is streamed, as text and as JSON", async () => {
  const path = "/api/v1/servers/localhost/zones/large.example.org./export";
  const exportAs = (accept: string) =>
    callApi("GET", `${api.url}${path}`, { "X-API-Key": "acme-api-key-0001", Accept: accept });
  const [text, json] = [await exportAs("text/plain"), await exportAs("application/json")];
  expect([text.headers["transfer-encoding"], json.headers["transfer-encoding"]]).toEqual(["chunked", "chunked"]);
  expect(text.body.match(/\n/g)).toHaveLength(RECORDS + 2);
  expect(json.body).toEqual({ zone: text.body });
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

test("a caller whose clients trickle has no third of them, and keeps no other caller from a large read", async () => {
  const text = "x".repeat(250);
  const long = `@ NS ns1.example.net.\n$GENERATE 1-20000 g$ TXT ${`"${text}" `.repeat(4)}\n`;
  expect((await api.call("PUT", "/api/v1/zone_file/copy.example.org", long)).status).toBe(200);
  const headers = { Authorization: "key-of-reseller-one", Reseller: "one" };
  const open = () =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const url = `${api.url}/api/v1/zone_file/copy.example.org`;
      request(url, { headers, agent: false }, resolve).on("error", reject).end();
    });
  const trickling = [await open(), await open()];
  const timer = setInterval(() => {
    for (const response of trickling) response.read(1);
  }, 20);
  try {
    const third = await open();
    expect([third.statusCode, third.headers["retry-after"]]).toEqual([429, "5"]);
    third.resume();
    const company = { key: "acme-api-key-0001", reseller: "one" };
    const whole = await api.call("GET", "/api/v1/zone_file/copy.example.org", undefined, company);
    expect(whole.status).toBe(200);
    expect(whole.text.match(/\n/g)?.length).toBeGreaterThan(20_000);
  } finally {
    clearInterval(timer);
    for (const response of trickling) response.destroy();
  }
  await eventually(
    async () => {
      const response = await open();
      response.destroy();
      return response.statusCode;
    },
    (status) => status === 200,
  );
});

test("pages of a large history wait for each other, by what they come to; of one caller a few at most", async () => {
  const company = { key: "acme-api-key-0001", reseller: "one" };
  const read = () => api.call("GET", "/api/v1/zone_history/copy.example.org?limit=1", undefined, company);
  const { db, url } = api.database;
  // None is done before the last has come.
  const reads = await withTableHeld(url, "zone_journal", async () => {
    const all = Array.from({ length: 6 }, read);
    await eventually(
      () => listWaiting(db),
      ({ length }) => length >= 6,
    );
    return { all };
  });
  const answers = await Promise.all(reads.all);
  expect(answers.map(({ status }) => status)).toContain(200);
  const refused = answers.filter(({ text }) => text.includes("zone_files_in_work"));
  expect(refused.map(({ status }) => status)).toEqual([429, 429]);
  expect((await read()).body.history[0].added).toHaveLength(20_000);
});
