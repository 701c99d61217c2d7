import { AsyncLocalStorage } from "node:async_hooks";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  ROOT_CONTEXT,
  type Tracer as SdkTracer,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { type ExportResult, ExportResultCode, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { defaultResource, type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { TracesConfig } from "../config/config.ts";
import { packageVersion } from "../package-folder.ts";
import type { Observe } from "./observation.ts";
import {
  errorType,
  type OpenSpan,
  type SpanAttributes,
  type SpanOptions,
  type TraceHeaders,
  type Tracer,
  type WithinSpan,
} from "./tracer.ts";

export interface TracerOptions {
  readonly traces: TracesConfig;
  /** What this machine is called among the nodes. */
  readonly node: string;
  readonly service: string;
  readonly observe: Observe;
}

const { getSpan, setSpan } = trace;

/** What waits for the collector, at most; what comes beyond that is lost. */
const MOST_WAITING_SPANS = 2_048;
const SPANS_PER_REQUEST = 512;
const GATHER_MS = 1_000;
const EXPORT_TIMEOUT_MS = 10_000;
/** Within the time that a service has to stop. */
const STOP_MS = 3_000;

const KINDS = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
} as const;

/** The tracer of a process, over OpenTelemetry's SDK; loaded only where traces are wanted. */
export class OpenTelemetryTracer implements Tracer {
  readonly #exporter: WatchedExporter;
  readonly #provider: TracerProvider;
  readonly #tracer: SdkTracer;
  readonly #propagator = new W3CTraceContextPropagator();
  readonly #underWay = new AsyncLocalStorage<Context>();

  constructor(options: TracerOptions) {
    this.#exporter = new WatchedExporter(options.traces, options.observe);
    const processor = new BatchSpanProcessor({
      exporter: this.#exporter,
      maxQueueSize: MOST_WAITING_SPANS,
      maxExportBatchSize: SPANS_PER_REQUEST,
      scheduledDelayMillis: GATHER_MS,
      exportTimeoutMillis: EXPORT_TIMEOUT_MS,
    });
    this.#provider = new TracerProvider({
      resource: describeProcess(options),
      sampler: makeSampler(options.traces),
      spanProcessors: [processor],
    });
    this.#tracer = this.#provider.getTracer("palomar", packageVersion);
  }

  async inSpan<T>(name: string, options: SpanOptions<T>, run: () => Promise<T>): Promise<T> {
    const { kind = "internal", attributes = {}, parent, outcome } = options;
    let within = this.#context;
    let since = {};
    if (typeof parent === "function") {
      since = { startTime: Date.now() };
      // What cannot be found out leaves a trace of its own.
      within = this.#contextOf(await parent().catch(() => ({})));
    } else if (parent !== undefined) within = this.#contextOf(parent);
    const span = this.#tracer.startSpan(name, { kind: KINDS[kind], attributes, ...since }, within);
    try {
      const value = await this.#underWay.run(setSpan(within, span), run);
      if (outcome !== undefined) say(span, outcome(value));
      return value;
    } catch (error) {
      say(span, { "error.type": errorType(error) });
      throw error;
    } finally {
      span.end();
    }
  }

  note(attributes: SpanAttributes): void {
    const span = getSpan(this.#context);
    if (span?.isRecording()) say(span, attributes);
  }

  addSpan(name: string, ms: number, attributes: SpanAttributes): void {
    this.#tracer.startSpan(name, { attributes, startTime: Date.now() - ms }, ROOT_CONTEXT).end();
  }

  openChild(name: string, attributes: SpanAttributes): OpenSpan | undefined {
    const within = this.#context;
    if (!getSpan(within)?.isRecording()) return undefined;
    const span = this.#tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, within);
    return {
      note: (event) => {
        span.addEvent(event);
      },
      end: (last = {}) => {
        say(span, last);
        span.end();
      },
    };
  }

  headers(): Readonly<Record<string, string>> {
    const headers: Record<string, string> = {};
    this.#propagator.inject(this.#context, headers, defaultTextMapSetter);
    return headers;
  }

  keepSpan(): WithinSpan {
    const kept = this.#context;
    return (run) => this.#underWay.run(kept, run);
  }

  async stop(): Promise<void> {
    const ended = this.#provider.shutdown().catch(() => {}); // the exporter has said so
    if (!this.#exporter.isAway) await Promise.race([ended, sleep(STOP_MS, undefined, { ref: false })]);
  }

  get #context(): Context {
    return this.#underWay.getStore() ?? ROOT_CONTEXT;
  }

  #contextOf(headers: TraceHeaders): Context {
    return this.#propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
  }
}

function describeProcess({ traces, node, service }: TracerOptions): Resource {
  const { resource, serviceName } = traces;
  const described = resourceFromAttributes({
    "service.name": `palomar-${service}`,
    "service.version": packageVersion,
    "host.name": hostname(),
    "process.pid": process.pid,
    "palomar.node": node,
    "palomar.service": service,
    ...resource,
    ...(serviceName === null ? {} : { "service.name": serviceName }),
  });
  return defaultResource().merge(described);
}

function say(span: Span, attributes: SpanAttributes): void {
  span.setAttributes(attributes);
  if (attributes["error.type"] !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
}

function makeSampler({ sampler, sampledShare }: TracesConfig): Sampler {
  switch (sampler) {
    case "always_on":
      return new AlwaysOnSampler();
    case "always_off":
      return new AlwaysOffSampler();
    case "traceidratio":
      return new TraceIdRatioBasedSampler(sampledShare);
    case "parentbased_always_on":
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case "parentbased_always_off":
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case "parentbased_traceidratio":
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampledShare) });
  }
}

/** The SDK's exporter; when the collector goes away or comes back, that is said once. */
class WatchedExporter implements SpanExporter {
  readonly #exporter: OTLPTraceExporter;
  readonly #observe: Observe;
  #isAway = false;

  constructor({ url, headers }: TracesConfig, observe: Observe) {
    this.#exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: EXPORT_TIMEOUT_MS });
    this.#observe = observe;
  }

  /** The last spans did not arrive. */
  get isAway(): boolean {
    return this.#isAway;
  }

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.#exporter.export(spans, (result) => {
      this.#note(result);
      done(result);
    });
  }

  forceFlush(): Promise<void> {
    return this.#exporter.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }

  #note({ code, error }: ExportResult): void {
    const isAway = code === ExportResultCode.FAILED;
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    if (isAway) this.#observe({ kind: "traces-lost", level: "warn", err: error });
    else this.#observe({ kind: "traces-sent-again", level: "info" });
  }
}
