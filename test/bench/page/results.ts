import type { ChangeResult } from "../dns-changes.ts";
import type { Row, ThreadsResult } from "../dns-report.ts";
import type { BatchResult, SubmissionResult } from "../mail-load.ts";

/** What each benchmark prints as its last line, in JSON. */
export interface Results {
  readonly dns: {
    readonly small?: readonly Row[];
    readonly threads?: readonly ThreadsResult[];
    readonly large?: { readonly rows: readonly Row[]; readonly changes: readonly ChangeResult[] };
  };
  readonly dnssec: {
    readonly names: number;
    readonly signing: { readonly seconds: number; readonly signzoneSeconds?: number };
    readonly changes: { readonly wireP50Ms: number; readonly wireP99Ms: number };
    readonly serving: readonly Row[];
  };
  readonly transfer: {
    readonly records: number;
    readonly results: Readonly<Record<string, { readonly ms: number; readonly octets: number }>>;
  };
  readonly api: { readonly palomar: ApiLoad & { readonly listMs: number }; readonly powerDns?: ApiLoad };
  readonly mail: {
    readonly recipients: number;
    readonly palomar: {
      readonly batch?: BatchResult & { readonly firstCallMs: number };
      readonly submission: readonly SubmissionResult[];
      readonly queue?: readonly { readonly queued: number; readonly workerMs: number; readonly postgresMs: number }[];
    };
    /** Empty where it did not run. */
    readonly postfix: readonly SubmissionResult[];
  };
  readonly tracking: {
    readonly clicksPerSecond: number;
    readonly p50Ms: number;
    readonly p99Ms: number;
    readonly cpuMicroseconds: number;
    readonly storedMs: number;
    readonly killed: { readonly answered: number; readonly stored: number };
  };
  readonly events: {
    readonly events: number;
    readonly ingestedPerSecond: number;
    readonly queries: readonly Query[];
  };
  readonly explorer: { readonly deliveries: number; readonly p95Ms: number; readonly searches: readonly Query[] };
}

/** What a program delivers at its best, messages a second; undefined where it did not run. */
export function bestDelivered(results: readonly SubmissionResult[]): number | undefined {
  return results.length === 0 ? undefined : Math.max(...results.map(({ deliveredPerSecond }) => deliveredPerSecond));
}

interface Query {
  readonly name: string;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

interface ApiLoad {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export type BenchmarkName = keyof Results;

/** The newest run of a benchmark that came to its end. */
export interface Run<Name extends BenchmarkName = BenchmarkName> {
  /** ISO date. */
  readonly date: string;
  readonly version: string;
  readonly node: string;
  readonly machine: string;
  /** Programs that took part, with versions. */
  readonly peers: string;
  readonly result: Results[Name];
}

export type Runs = { readonly [Name in BenchmarkName]?: Run<Name> };
