import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import type { KeyRing } from "../core/key-ring.ts";
import type { Touch } from "../operations/mail/tracking-events.ts";
import type { Clock } from "../platform/clock.ts";
import type { RateLimits } from "../platform/http/limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { LinkDirectory } from "./link-directory.ts";
import { sendErrorPage } from "./pages.ts";
import type { VisitorRules } from "./visitor.ts";

/** What the routes work with. */
export interface TrackingTools {
  readonly keyRing: KeyRing;
  readonly db: Db;
  readonly clock: Clock;
  readonly links: LinkDirectory;
  readonly visitors: VisitorRules;
  /** When whom asked by HEAD, which stores nothing: by delivery and network, in milliseconds. */
  readonly heads: Pick<Map<string, number>, "get" | "set">;
  readonly limits: RateLimits;
  /** Who asks (see platform/http/client-address.ts). */
  clientAddress(request: IncomingMessage): string;
  readonly observe: Observe;
  /** Resolves when the touch is on the disk; the events come of it soon after, or when the database is back. */
  record(touch: Touch): Promise<void>;
}

/** One kind of URL. */
export interface Route {
  readonly methods: readonly string[];
  handle(ctx: Context, token: string, tools: TrackingTools): Promise<void>;
}

/** Who looks at a delivery, and when. Whoever asks by HEAD first is a machine: no reader's program does. */
export function visitOf(ctx: Context, deliveryId: number, tools: TrackingTools) {
  const { visitors, heads } = tools;
  const visitor = visitors.describe({ headers: ctx.headers, address: tools.clientAddress(ctx.req) });
  const atMs = tools.clock.nowMs();
  const key = `${deliveryId} ${visitor.network}`;
  if (ctx.method === "HEAD") heads.set(key, atMs);
  const sinceHead = atMs - (heads.get(key) ?? Number.NEGATIVE_INFINITY);
  const machine = visitor.machine ?? (sinceHead <= visitors.headFirst.withinSeconds * 1_000 ? "head-first" : undefined);
  return { deliveryId, atMs, visitor: { ...visitor, machine } };
}

/**
 * Records what a GET did; a HEAD did nothing. Should the disk refuse, the visitor gets the answer all the same: losing
 * the event is the smaller harm.
 */
export async function recordVisit(ctx: Context, { record, observe }: TrackingTools, touch: Touch): Promise<void> {
  if (ctx.method === "HEAD") return;
  try {
    await record(touch);
  } catch (error) {
    observe({ kind: "tracking-event-lost", level: "error", touchKind: touch.kind, err: error });
  }
}

/**
 * Reads the whole of a body, however long: a request that is left in the middle takes its connection with it.
 * @returns undefined for one that has more octets
 */
export async function readWhole(request: IncomingMessage, mostOctets: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let sizeOctets = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeOctets += chunk.length;
    if (sizeOctets <= mostOctets) chunks.push(chunk);
    else chunks.length = 0;
  }
  return sizeOctets > mostOctets ? undefined : Buffer.concat(chunks);
}

/** Answers a token that is not ours. Whoever keeps guessing has to wait; tokens that are ours always work. */
export async function refuseToken(ctx: Context, { limits, clientAddress }: TrackingTools): Promise<void> {
  const address = clientAddress(ctx.req);
  const refusal = await limits.beforeAuthentication(address);
  if (refusal?.kind === "rate-limited") {
    ctx.set("Retry-After", String(refusal.retryAfterSeconds));
    return sendErrorPage(ctx, 429, "too-many");
  }
  await limits.countFailure(address);
  sendErrorPage(ctx, 400, "bad-link");
}
