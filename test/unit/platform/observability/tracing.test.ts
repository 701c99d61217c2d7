import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Config, loadConfig } from "../../../../services/platform/config/config.ts";
import type { Observation } from "../../../../services/platform/observability/observation.ts";
import {
  inSpan,
  keepSpan,
  startTracing,
  trace,
  traced,
  traceHeaders,
} from "../../../../services/platform/observability/tracing.ts";
import { packageFolder } from "../../../../services/platform/package-folder.ts";
import { summarise } from "../../../../services/platform/postgres/traced-statements.ts";
import { eventually } from "../../../support/stack.ts";
import { startTraceCollector, type TraceCollector } from "../../../support/trace-collector.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";

let collector: TraceCollector;
let observed: Observation[];
let stop: (() => Promise<void>) | undefined;

beforeEach(async () => {
  collector = await startTraceCollector();
  observed = [];
});
afterEach(async () => {
  await stop?.();
  stop = undefined;
  await collector.close();
});

function configOf(environment: Readonly<Record<string, string | undefined>>): Config {
  const config = loadConfig(environment);
  if (!config.ok) throw new Error(config.error.join("\n"));
  return config.value;
}

async function start(environment: Readonly<Record<string, string | undefined>> = {}): Promise<void> {
  const config = configOf({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...environment });
  stop = await startTracing(config, "mail-api", (observation) => observed.push(observation));
}

describe("where no traces are wanted", () => {
  it.each([{}, { OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" }])("%j", async (env) => {
    expect(await startTracing(configOf(env), "mail-api", () => {})).toBeUndefined();
    const value = {};
    expect(traced(value)).toBe(value);
    expect(traceHeaders()).toEqual({});
    expect(await inSpan("x", { parent: () => Promise.reject(new Error("asked")) }, async () => 1)).toBe(1);
    expect(keepSpan()(() => 2)).toBe(2);
  });

  it("nothing of OpenTelemetry is loaded: one file imports it, and only what starts traces imports that", () => {
    const folder = join(packageFolder, "services");
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));
    const containing = (pattern: RegExp) =>
      files.filter((file) => pattern.test(readFileSync(join(folder, file), "utf8")));
    expect(containing(/from "@opentelemetry|import\("@opentelemetry/)).toEqual([
      "platform/observability/open-telemetry.ts",
    ]);
    expect(containing(/from "[./]*open-telemetry\.ts"/)).toEqual([]);
    expect(containing(/import\("\.\/open-telemetry\.ts"\)/)).toEqual(["platform/observability/tracing.ts"]);
  });
});

it("spans have their parents, attributes and failures, and what made them says who it is", async () => {
  await start({ OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=a%20test", PALOMAR_NODE: "node-1" });
  const parent = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: "vendor=1" };
  await inSpan("outer", { kind: "server", parent, attributes: { "http.route": "/x", absent: undefined } }, async () => {
    expect(traceHeaders()).toEqual({
      traceparent: expect.stringMatching(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`)),
      tracestate: "vendor=1",
    });
    const bounceClass = { hard: true, reason: "no such mailbox" };
    trace({ kind: "delivery-bounced", deliveryId: 1, words: "550", bounceClass });
    const failure = Object.assign(new Error("a detail: someone@example.net"), { code: "23505" });
    await expect(inSpan("inner", {}, () => Promise.reject(failure))).rejects.toBe(failure);
    await inSpan("refused", { outcome: (value) => ({ "error.type": value }) }, async () => "550");
  });
  const published = { kind: "zones-published", zones: 3, octets: 9_000 } as const;
  trace({ ...published, changed: 0, ms: 3 });
  trace({ ...published, changed: 2, ms: 30 });
  await stop?.();

  const span = (name: string) => collector.spans.find((one) => one.name === name)!;
  const outer = span("outer");
  expect(outer).toMatchObject({ service: "palomar-mail-api", traceId: TRACE, parentSpanId: CALLER, failed: false });
  expect(outer.attributes).toEqual({
    "http.route": "/x",
    "palomar.outcome": "bounced",
    "palomar.bounce.hard": true,
    "palomar.bounce.reason": "no such mailbox",
  });
  const beneath = { traceId: TRACE, parentSpanId: outer.spanId, failed: true };
  expect(span("inner")).toMatchObject({ ...beneath, attributes: { "error.type": "23505" } });
  expect(span("refused")).toMatchObject({ ...beneath, attributes: { "error.type": "550" } });
  expect(span("publish zones")).toMatchObject({ parentSpanId: "", attributes: { "palomar.zones.changed": 2 } });
  expect(span("publish zones").ms).toBeGreaterThanOrEqual(29);
  expect(collector.spans).toHaveLength(4);
  expect(outer.resource).toMatchObject({
    "palomar.node": "node-1",
    "palomar.service": "mail-api",
    "deployment.environment.name": "a test",
  });
  expect(collector.bodies.join()).not.toContain("someone@example.net");
  expect(observed).toEqual([]);
});

it("a parent that cannot be found out, or is no lawful one, leaves a trace of its own", async () => {
  await start();
  await inSpan("unknown", { parent: () => Promise.reject(new Error("away")) }, async () => {});
  await inSpan("unlawful", { parent: { traceparent: `00-${TRACE}-0000000000000000-01` } }, async () => {});
  await stop?.();
  expect(collector.spans.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual([
    ["unknown", ""],
    ["unlawful", ""],
  ]);
  expect(new Set(collector.spans.map(({ traceId }) => traceId))).toHaveProperty("size", 2);
  expect(collector.spans.some(({ traceId }) => traceId === TRACE)).toBe(false);
});

it("what is stored or put off keeps the span that led to it", async () => {
  await start();
  const [kept, within] = await inSpan("asked", {}, async () => [traced({ a: 1 }), keepSpan()] as const);
  expect(traceHeaders()).toEqual({});
  await within(() => inSpan("done together", {}, async () => {}));
  await inSpan("done later", { parent: async () => ({ traceparent: kept.traceParent }) }, async () => {});
  await stop?.();
  const [asked] = collector.spans.filter(({ name }) => name === "asked");
  for (const name of ["done together", "done later"]) {
    const span = collector.spans.find((one) => one.name === name);
    expect(span).toMatchObject({ traceId: asked!.traceId, parentSpanId: asked!.spanId });
  }
});

describe("which traces are kept, and where they go", () => {
  it.each([
    [{ OTEL_TRACES_SAMPLER: "always_off" }, []],
    [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }, []],
    [{ OTEL_TRACES_SAMPLER: "traceidratio" }, ["root", "sampled", "unsampled"]],
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, ["sampled"]],
    [{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.0" }, ["sampled"]],
    [{ OTEL_TRACES_SAMPLER: "" }, ["root", "sampled"]],
    [{ OTEL_TRACES_SAMPLER: "always_on" }, ["root", "sampled", "unsampled"]],
  ])("%j: %j", async (environment, names) => {
    await start(environment);
    const begun = await inSpan("root", {}, async () => traced({}));
    expect(begun.traceParent).toMatch(names.includes("root") ? /-01$/ : /-00$/);
    await inSpan("sampled", { parent: { traceparent: `00-${TRACE}-${CALLER}-01` } }, async () => {});
    await inSpan("unsampled", { parent: { traceparent: `00-${TRACE}-${CALLER}-00` } }, async () => {});
    await stop?.();
    expect(collector.spans.map(({ name }) => name)).toEqual(names);
  });

  it("the URL for traces goes before the common one, and headers go along", async () => {
    await start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/elsewhere`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=acme",
      OTEL_SERVICE_NAME: "mail",
    });
    await inSpan("x", {}, async () => {});
    await stop?.();
    expect(collector.requests.map(({ url }) => url)).toEqual(["/elsewhere"]);
    expect(collector.requests[0]!.headers).toMatchObject({ "x-tenant": "acme", "content-type": "application/json" });
    expect(collector.spans[0]!.service).toBe("mail");
  });
});

it("a collector that is away costs lost spans, one line, and no time", async () => {
  collector.answerWith(400);
  await start();
  await inSpan("lost", {}, async () => {});
  await eventually(
    async () => observed.length,
    (count) => count > 0,
  );
  for (let round = 0; round < 2; round += 1) {
    const asked = collector.requests.length;
    await inSpan("lost too", {}, async () => {});
    await eventually(
      async () => collector.requests.length,
      (count) => count > asked,
    );
  }
  collector.answerWith(200);
  await inSpan("arrives", {}, async () => {});
  await collector.find(({ name }) => name === "arrives");
  await eventually(
    async () => observed.length,
    (count) => count > 1,
  );
  expect(observed.map(({ kind }) => kind)).toEqual(["traces-lost", "traces-sent-again"]);
  expect(collector.spans.map(({ name }) => name)).toEqual(["arrives"]);
});

it("spans wait for a silent collector in bounded number, and no stop waits for it long", async () => {
  collector.answerWith(0);
  await start();
  for (let n = 0; n < 10_000; n += 1) await inSpan("waits", {}, async () => {});
  await eventually(
    async () => collector.requests.length,
    (count) => count > 0,
  );
  const startedAtMs = performance.now();
  await stop?.();
  expect(performance.now() - startedAtMs).toBeLessThan(30_000);
  // 10,000 spans would be twenty requests.
  expect(collector.requests.length).toBeLessThanOrEqual(1 + Math.ceil(2_048 / 512));
});

it.each([
  ["select * from contacts where email = 'a@example.net'", "select contacts"],
  ["select id from partitions where id = any(?) order by id for no key update", "select partitions"],
  [" insert into batches (eeid) select * from unnest(?)", "insert batches"],
  ['update "deliveries" set state = ?', "update deliveries"],
  ["with locked as (select id from partitions for update) update partitions p set x = 1", "update partitions"],
  ["delete from inbound_messages where id = 1", "delete inbound_messages"],
  ["select 1", "select"],
  ["NOTIFY palomar_mail", "notify"],
])("%s is called %s", (text, name) => {
  expect(summarise(text)).toBe(name);
});

it.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, "OTEL_EXPORTER_OTLP_ENDPOINT: must be an http or https URL"],
  [{ OTEL_TRACES_SAMPLER: "sometimes" }, "OTEL_TRACES_SAMPLER: must be one of always_on"],
  [{ OTEL_TRACES_SAMPLER_ARG: "1.5" }, "OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1"],
  [{ OTEL_RESOURCE_ATTRIBUTES: "a=1,b" }, "OTEL_RESOURCE_ATTRIBUTES: must be name=value"],
  [{ OTEL_EXPORTER_OTLP_HEADERS: "a=%zz" }, "OTEL_EXPORTER_OTLP_HEADERS: must be name=value"],
])("%j: %s", (env, problem) => {
  expect(loadConfig(env)).toMatchObject({ ok: false, error: [expect.stringContaining(problem)] });
});
