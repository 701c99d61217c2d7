/**
 * What is said of a span: names of OpenTelemetry's conventions where they have one, else `palomar.…`. Never an address of
 * mail or of a client, a path as it was asked for, a key, a token or a value of a statement. `error.type` says that it failed.
 */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** `traceparent` and `tracestate` of W3C Trace Context, among other headers perhaps. */
export type TraceHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface SpanOptions<T> {
  /** `internal` unless said. */
  readonly kind?: "internal" | "server" | "client" | "consumer";
  readonly attributes?: SpanAttributes;
  /**
   * What led here, when that was elsewhere: nothing in it begins a trace. A function is asked only where traces are made.
   * Absent: the span that is under way.
   */
  readonly parent?: TraceHeaders | (() => Promise<TraceHeaders>);
  /** What the outcome says. */
  readonly outcome?: (value: T) => SpanAttributes;
}

/** A span that does not hold what happens meanwhile. */
export interface OpenSpan {
  note(event: string): void;
  end(attributes?: SpanAttributes): void;
}

/** Runs something as if in the span that was under way when this was made. */
export type WithinSpan = <T>(run: () => T) => T;

/** Makes the spans of this process (see open-telemetry.ts). */
export interface Tracer {
  inSpan<T>(name: string, options: SpanOptions<T>, run: () => Promise<T>): Promise<T>;
  /** Adds to the span under way. */
  note(attributes: SpanAttributes): void;
  /** A span that ends now. */
  addSpan(name: string, ms: number, attributes: SpanAttributes): void;
  /** Of the span under way; undefined where there is none, or it has ended. */
  openChild(name: string, attributes: SpanAttributes): OpenSpan | undefined;
  /** For what follows from the span under way elsewhere; empty where there is none. */
  headers(): Readonly<Record<string, string>>;
  keepSpan(): WithinSpan;
  /** Sends what is there, unless the collector is away; within a few seconds. */
  stop(): Promise<void>;
}

/** What kind of error it was: its code (SQLSTATE, errno, SMTP) or class, never its text, which may hold values. */
export function errorType(error: unknown): string {
  const { responseCode, code, name } = (error ?? {}) as { responseCode?: unknown; code?: unknown; name?: unknown };
  return String(responseCode ?? code ?? name ?? typeof error);
}
