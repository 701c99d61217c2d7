import Koa, { type Context, type Next } from "koa";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Aside } from "../fair-turns.ts";
import type { KeyGuesses } from "../guesses/key-guesses.ts";
import type { Observe } from "../observability/observation.ts";
import { carryOut, failureOf } from "./carry-out.ts";
import { makeClientAddress } from "./client-address.ts";
import type { Dialect, HttpRefusal } from "./dialect.ts";
import { type AnyEndpoint, type Door, RawReply } from "./endpoint.ts";
import { type HeavyLimits, HeavyRequests, readThen } from "./heavy-requests.ts";
import type { LargeRequests } from "./large-requests.ts";
import { noLimits, type RateLimits } from "./limits.ts";
import type { HttpApp } from "./listen.ts";
import { PROBLEM_TYPE, problemOf, wantsProblems } from "./problem.ts";
import { readBody, unreadBody } from "./request-body.ts";
import { requestIdOf } from "./request-id.ts";
import { garbledParam, Routes } from "./routes.ts";
import { readInTime } from "./slow-bodies.ts";
import { traceRequest } from "./trace-request.ts";

export interface AppOptions<Caller> extends Door<Caller> {
  /** Operations below this app's that are spoken to otherwise, such as those of another program's API. */
  readonly otherDoor?: Door<Caller> | undefined;
  readonly bodyLimitOctets: number;
  readonly observe: Observe;
  readonly limits?: Pick<RateLimits, "countRequest">;
  /** Slows whoever tries keys; nobody when absent, or when the dialect names no keys. */
  readonly guesses?: KeyGuesses;
  /** Counts a request of a caller that may be one too many, by what it asks for. */
  readonly countUse?: (
    caller: Caller,
    declared: AnyEndpoint<Caller>,
    clientAddress: string,
  ) => Promise<Refusal | undefined>;
  /** How many large requests are taken and worked on at a time. */
  readonly heavyRequests?: HeavyLimits;
  /** Carries out large requests in a thread of their own; in this one when absent. */
  readonly largeRequests?: LargeRequests | undefined;
  /** Where a visitor of `/` is sent; nowhere when absent. */
  readonly home?: string;
  /** Answers a GET or HEAD of a path that no operation has, such as a page's; false when it has nothing there either. */
  readonly fallback?: (ctx: Context) => Promise<boolean>;
  /** Proxies whose X-Forwarded-For is believed; none unless given. */
  readonly trustedProxies?: readonly string[];
}

/**
 * Runs declared endpoints. Every request takes the same steps, cheapest refusal first: path, method, credentials,
 * JSON and fields, then the act; nothing touches the database before the credentials.
 */
export function makeApp<Caller>(options: AppOptions<Caller>): HttpApp {
  const { dialect, otherDoor, observe } = options;
  const routes = new Routes(dialect.base);
  for (const door of [options, ...(otherDoor ? [otherDoor] : [])]) {
    const run = makeRunner({ ...options, ...door });
    for (const declared of door.endpoints) {
      const path = door.dialect.base + declared.path;
      routes.register(path, declared.method, (ctx) => answer(ctx, path, () => run(declared, ctx, ctx.params)));
    }
  }
  addOpenapi(routes, options, answer);
  if (options.home) routes.register("/", "GET", (ctx) => answer(ctx, "/", async () => ctx.redirect(options.home!)));

  const app: HttpApp = Object.assign(new Koa(), { describeRefusal });
  app.silent = true;
  app.on("error", (error: Error) => observe({ kind: "http-response-failed", level: "debug", err: error }));
  app.use((ctx, next) => observeRequest(ctx, next, observe));
  app.use(routes.middleware());
  app.use((ctx) =>
    answer(ctx, undefined, async () => {
      const allowed = routes.allowedMethods(ctx.path);
      const isRead = ctx.method === "GET" || ctx.method === "HEAD";
      if (allowed.length > 0) send(ctx, spokenAt(ctx.path), { kind: "wrong-method", allowed });
      else if (!isRead || !(await options.fallback?.(ctx))) send(ctx, spokenAt(ctx.path), { kind: "unknown-path" });
    }),
  );
  return app;

  function answer(ctx: Context, route: string | undefined, handle: () => Promise<void>): Promise<void> {
    return traceRequest(ctx, route, async () => {
      try {
        await handle();
      } catch (error) {
        const { method, path } = ctx;
        send(ctx, spokenAt(path), failureOf(error, observe, { requestId: requestIdOf(ctx.req), method, path }));
      }
    });
  }

  function describeRefusal(refusal: Refusal, path = ""): HttpRefusal {
    const { toHttp, jsonType } = spokenAt(path);
    const told = toHttp(refusal);
    return jsonType === undefined ? told : { ...told, headers: { ...told.headers, "Content-Type": jsonType } };
  }

  function spokenAt(path: string): Dialect<Caller> {
    return otherDoor && `${path}/`.startsWith(`${otherDoor.dialect.base}/`) ? otherDoor.dialect : dialect;
  }
}

/** Answers a request, whatever becomes of it. @param route the path as it was declared, where there is one */
type Answer = (ctx: Context, route: string | undefined, handle: () => Promise<void>) => Promise<void>;

interface OpenapiPages {
  readonly document: Buffer;
  readonly page: Buffer;
}

/** The pages by which an API describes itself: each is in memory once, however many read it. */
function addOpenapi<Caller>(
  routes: Routes,
  { dialect, endpoints, otherDoor }: AppOptions<Caller>,
  answer: Answer,
): void {
  // Made when first asked for: a start has better things to do.
  let openapi: Promise<OpenapiPages> | undefined;
  const pages = () => {
    openapi ??= import("./openapi.ts").then(({ makeOpenapi, makeDocsPage }) => {
      const document = makeOpenapi({ dialect, endpoints }, otherDoor);
      return { document: Buffer.from(JSON.stringify(document)), page: Buffer.from(makeDocsPage(document)) };
    });
    return openapi;
  };
  routes.register("/openapi.json", "GET", (ctx) =>
    answer(ctx, "/openapi.json", async () => {
      ctx.type = "json";
      ctx.body = (await pages()).document;
    }),
  );
  routes.register("/docs", "GET", (ctx) =>
    answer(ctx, "/docs", async () => {
      ctx.type = "html";
      ctx.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
      ctx.body = (await pages()).page;
    }),
  );
}

/** Puts the headers around a request that all have, and says what became of it. */
async function observeRequest(ctx: Context, next: Next, observe: Observe): Promise<void> {
  const startedAt = performance.now();
  const requestId = requestIdOf(ctx.req);
  ctx.set("X-Request-Id", requestId);
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("Cache-Control", "no-store");
  await next();
  observe({
    kind: "http-request",
    requestId,
    method: ctx.method,
    path: ctx.path,
    status: ctx.status,
    ms: Math.round(performance.now() - startedAt),
  });
}

/** What a stranger may send. */
const OPEN_BODY_OCTETS = 16 * 1024;
/** With what changes nothing: more would be read, and carried out, in the places of large requests. */
const READING_BODY_OCTETS = 64 * 1024;

function mostOctetsOf({ open, method }: Pick<AnyEndpoint<never>, "open" | "method">, limitOctets: number): number {
  if (open) return Math.min(limitOctets, OPEN_BODY_OCTETS);
  return method === "GET" ? Math.min(limitOctets, READING_BODY_OCTETS) : limitOctets;
}

function makeRunner<Caller>(options: AppOptions<Caller>) {
  const { dialect, limits = noLimits, guesses, bodyLimitOctets } = options;
  const addressOf = makeClientAddress(options.trustedProxies ?? []);
  const heavy = new HeavyRequests(options.heavyRequests);

  return async (declared: AnyEndpoint<Caller>, ctx: Context, params: Readonly<Record<string, string>>) => {
    const outcome = await attempt();
    if (!outcome.ok) send(ctx, dialect, outcome.error);
    else if (outcome.value instanceof RawReply) {
      ctx.status = declared.replyStatus ?? outcome.value.status;
      ctx.set(outcome.value.headers);
      ctx.type = outcome.value.contentType;
      ctx.body = outcome.value.body;
      setJsonType(ctx, dialect);
    } else {
      if (declared.replyStatus) ctx.status = declared.replyStatus;
      ctx.body = outcome.value;
      setJsonType(ctx, dialect);
    }

    async function attempt(): Promise<Result<unknown, Refusal>> {
      const caller = await authenticate(declared, ctx);
      if (!caller.ok) return caller;
      const barred = declared.authorise?.(caller.value);
      if (barred) return refuse(barred);
      const garbled = garbledParam(ctx, params);
      if (garbled) return refuse(invalidField(garbled, "percent-encoded"));
      const mostOctets = mostOctetsOf(declared, bodyLimitOctets);
      const readWhole = () => readInTime(ctx.req, () => readBody(ctx.req, mostOctets));
      const read = async () => (declared.input === "stream" ? unreadBody(ctx.req) : readWhole());
      const key = declared.open ? addressOf(ctx.req) : dialect.callerKey(caller.value);
      const group = declared.open ? key : (dialect.groupKey?.(caller.value) ?? key);
      const sharer = { key, group };
      const work = (body: Buffer, aside: Aside) => {
        const { method, path, query, headers } = ctx;
        const whose = { caller: caller.value, sharer, clientAddress: addressOf(ctx.req) };
        const asked = { requestId: requestIdOf(ctx.req), method, path, params, query, headers, ...whose, body };
        return options.largeRequests && declared.input !== "stream"
          ? options.largeRequests.carryOut(declared, dialect, asked, { aside })
          : carryOut(declared, dialect, asked, { aside, incoming: ctx.req });
      };
      // Strangers send little, and have none of the places of those who are known.
      return declared.open ? readThen(read, work) : heavy.run(sharer, ctx.req, read, work);
    }
  };

  async function authenticate(declared: AnyEndpoint<Caller>, ctx: Context): Promise<Result<Caller, Refusal>> {
    if (declared.open) return ok(undefined as Caller);
    const address = addressOf(ctx.req);
    const look = () => dialect.authenticate(ctx.headers, address);
    const key = guesses?.judges(address) ? dialect.keyOf?.(ctx.headers) : undefined;
    const isGone = () => ctx.req.socket.destroyed;
    const caller = guesses && key ? await guesses.judge({ ...key, address, isGone }, look) : await look();
    if (!caller.ok) return caller;
    const limited =
      (await limits.countRequest(dialect.callerKey(caller.value), address)) ??
      (await options.countUse?.(caller.value, declared, address));
    return limited ? refuse(limited) : caller;
  }
}

function send<Caller>(ctx: Context, dialect: Dialect<Caller>, refusal: Refusal): void {
  const { status, body, headers = {} } = dialect.toHttp(refusal);
  ctx.status = status;
  ctx.set(headers);
  if (wantsProblems(ctx.headers)) {
    ctx.type = PROBLEM_TYPE;
    ctx.body = problemOf(refusal, status, dialect.say(refusal));
  } else {
    ctx.body = body;
    setJsonType(ctx, dialect);
  }
  // RFC 7694 §3
  if (refusal.kind === "unknown-coding") ctx.set("Accept-Encoding", refusal.known.join(", "));
  if (refusal.kind === "wrong-method") ctx.set("Allow", refusal.allowed.join(", "));
  if (refusal.kind === "rate-limited") ctx.set("Retry-After", String(refusal.retryAfterSeconds));
  if (refusal.kind === "unavailable") ctx.set("Retry-After", "2");
}

/** Koa names a charset with every text; JSON has but one (RFC 8259 §8.1). */
function setJsonType<Caller>(ctx: Context, { jsonType }: Dialect<Caller>): void {
  if (jsonType !== undefined && ctx.type === "application/json") ctx.set("Content-Type", jsonType);
}
