import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

/** A span as a collector sees it. */
export interface CollectedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty of a root. */
  readonly parentSpanId: string;
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly failed: boolean;
  readonly ms: number;
}

export interface TraceCollector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** All that came, as it came. */
  readonly bodies: readonly string[];
  readonly requests: readonly IncomingMessage[];
  /** What it answers from here on; 0: nothing. */
  answerWith(status: number): void;
  /** Waits for a span. */
  find(wanted: (span: CollectedSpan) => boolean): Promise<CollectedSpan>;
  close(): Promise<void>;
}

const KIND_SERVER = 2;
const FAILED = 2;
const PATIENCE_MS = 60_000;

export const isServer = ({ kind }: CollectedSpan): boolean => kind === KIND_SERVER;

/** Listens for OTLP over HTTP, in JSON. @param port 0: any */
export async function startTraceCollector(port = 0): Promise<TraceCollector> {
  const spans: CollectedSpan[] = [];
  const bodies: string[] = [];
  const requests: IncomingMessage[] = [];
  let status = 200;
  const server = createServer(async (request, response) => {
    requests.push(request);
    // As it stands when the request comes: whoever has seen that may ask for another one.
    const answer = status;
    const body = await text(request);
    if (answer === 200) {
      bodies.push(body);
      spans.push(...readSpans(JSON.parse(body)));
    }
    if (answer !== 0) response.writeHead(answer, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    requests,
    answerWith: (next) => {
      status = next;
    },
    find: async (wanted) => {
      for (let waitedMs = 0; ; waitedMs += 50) {
        const found = spans.find(wanted);
        if (found !== undefined) return found;
        if (waitedMs > PATIENCE_MS) throw new Error(`no such span: ${spans.map(({ name }) => name).join(", ")}`);
        await sleep(50);
      }
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** opentelemetry-proto, `ExportTraceServiceRequest`, in its JSON encoding. */
interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeSpans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}

interface KeyValue {
  readonly key: string;
  readonly value: { readonly [type: string]: unknown };
}

interface WireSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly attributes: readonly KeyValue[];
  readonly events: readonly { readonly name: string }[];
  readonly status: { readonly code?: number };
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

function readSpans({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const ofResource = readAttributes(resource.attributes);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => readSpan(span, ofResource)));
  });
}

function readSpan(span: WireSpan, resource: Readonly<Record<string, unknown>>): CollectedSpan {
  const { name, traceId, spanId, parentSpanId = "", kind, attributes, events, status } = span;
  return {
    ...{ name, traceId, spanId, parentSpanId, kind, resource },
    service: String(resource["service.name"]),
    attributes: readAttributes(attributes),
    events: events.map((event) => event.name),
    failed: status.code === FAILED,
    ms: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
  };
}

function readAttributes(attributes: readonly KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
