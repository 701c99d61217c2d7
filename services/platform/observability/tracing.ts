import type pg from "pg";
import type { Config } from "../config/config.ts";
import { type Consequences, consequenceOf, type Observation, type Observe } from "./observation.ts";
import { errorType, type SpanAttributes, type SpanOptions, type Tracer, type WithinSpan } from "./tracer.ts";

/** Undefined: no traces are made, and nothing of OpenTelemetry is loaded. */
let tracer: Tracer | undefined;

/**
 * Has this process make traces from here on, if the configuration wants them; to be called before the database is opened.
 * @returns what ends it; undefined when no traces are wanted
 */
export async function startTracing(
  { traces, node }: Config,
  service: string,
  observe: Observe,
): Promise<(() => Promise<void>) | undefined> {
  if (traces === null) return undefined;
  const { OpenTelemetryTracer } = await import("./open-telemetry.ts");
  const started = new OpenTelemetryTracer({ traces, node, service, observe });
  tracer = started;
  return async () => {
    tracer = undefined;
    await started.stop();
  };
}

/** Runs something as a span: a step worth knowing the time of, and what led to it. */
export function inSpan<T>(name: string, options: SpanOptions<T>, run: () => Promise<T>): Promise<T> {
  return tracer === undefined ? run() : tracer.inSpan(name, options, run);
}

/** The headers that tell another service of ours what led to a request. */
export function traceHeaders(): Readonly<Record<string, string>> {
  return tracer?.headers() ?? {};
}

/** Something that is stored or handed on, with the span that led to it as a `traceparent` (W3C Trace Context §3.2). */
export type Traced<T> = T & { readonly traceParent?: string };

export function traced<T extends object>(value: T): Traced<T> {
  const traceParent = traceHeaders().traceparent;
  return traceParent === undefined ? value : { ...value, traceParent };
}

/** For work that is put off, and done together with others'. */
export function keepSpan(): WithinSpan {
  return tracer?.keepSpan() ?? AS_IT_IS;
}

const AS_IT_IS: WithinSpan = (run) => run();

/** What a pool has to do with a new connection for its statements to be traced. */
export async function traceConnection(connection: pg.Client): Promise<void> {
  if (tracer === undefined) return;
  const { traceStatements } = await import("../postgres/traced-statements.ts");
  traceStatements(connection, (name, attributes) => tracer?.openChild(name, attributes));
}

/** What an observation says of the span under way. */
const NOTED: Consequences<[], SpanAttributes> = {
  "request-failed": ({ err }) => ({ "exception.type": errorType(err) }),
  "database-away": ({ err }) => ({ "exception.type": errorType(err) }),
  "tracking-request-failed": ({ err }) => ({ "exception.type": errorType(err) }),
  "message-not-composed": ({ err }) => ({ "error.type": errorType(err) }),
  "submission-accepted": ({ eeid, recipients, octets }) => ({
    "palomar.eeid": eeid,
    "palomar.recipients": recipients,
    "palomar.octets": octets,
  }),
  "inbound-stored": ({ recipients, octets }) => ({ "palomar.recipients": recipients, "palomar.octets": octets }),
  "inbound-applied": ({ finding, consequence }) => ({
    "palomar.finding": finding,
    "palomar.consequence": consequence,
  }),
  "delivery-delivered": () => ({ "palomar.outcome": "delivered" }),
  "delivery-deferred": () => ({ "palomar.outcome": "deferred" }),
  "delivery-bounced": ({ bounceClass }) => ({
    "palomar.outcome": "bounced",
    "palomar.bounce.hard": bounceClass?.hard,
    "palomar.bounce.reason": bounceClass?.reason,
  }),
};

/** Adds an observation to the traces. */
export function trace(observation: Observation): void {
  if (tracer === undefined) return;
  const attributes = consequenceOf(NOTED, observation);
  if (attributes !== undefined) tracer.note(attributes);
  // Zones are published of what many requests have changed, so it is a trace of its own.
  if (observation.kind === "zones-published" && observation.changed > 0) {
    tracer.addSpan("publish zones", observation.ms, { "palomar.zones.changed": observation.changed });
  }
}
