import { bodyParser } from "@koa/bodyparser";
import Router from "@koa/router";
import Koa, { type Context } from "koa";
import { ZodDefault, ZodNumber, ZodObject, ZodOptional, type ZodType } from "zod";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Observe } from "../observation.ts";
import type { Dialect } from "./dialect.ts";
import { type AnyEndpoint, RawReply } from "./endpoint.ts";
import { cleanFields, validateFields } from "./fields.ts";
import { noLimits, type RateLimits } from "./limits.ts";

export interface AppOptions<Caller> {
  readonly dialect: Dialect<Caller>;
  readonly endpoints: readonly AnyEndpoint<Caller>[];
  readonly bodyLimitOctets: number;
  readonly observe: Observe;
  readonly limits?: RateLimits;
  /** Where a visitor of `/` is sent; nowhere when absent. */
  readonly home?: string;
}

interface OpenapiPages {
  readonly document: object;
  readonly page: string;
}

/**
 * Runs declared endpoints. Every request takes the same steps, cheapest refusal first: path, method, credentials,
 * JSON and fields, then the act; nothing touches the database before the credentials.
 */
export function makeApp<Caller>(options: AppOptions<Caller>): Koa {
  const { dialect, endpoints, observe } = options;
  const router = new Router({ sensitive: true });
  const run = makeRunner(options);
  for (const declared of endpoints) {
    router.register(dialect.base + declared.path, [declared.method], (ctx: Context) => run(declared, ctx), {
      sensitive: true,
    });
  }
  // Made when first asked for: a start has better things to do.
  let openapi: Promise<OpenapiPages> | undefined;
  const pages = () => {
    openapi ??= import("./openapi.ts").then(({ makeOpenapi, makeDocsPage }) => {
      const document = makeOpenapi(dialect, endpoints);
      return { document, page: makeDocsPage(document) };
    });
    return openapi;
  };
  router.get("/openapi.json", async (ctx: Context) => {
    ctx.body = (await pages()).document;
  });
  router.get("/docs", async (ctx: Context) => {
    ctx.type = "html";
    ctx.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    ctx.body = (await pages()).page;
  });
  if (options.home) router.redirect("/", options.home, 302);

  const app = new Koa();
  app.silent = true;
  app.on("error", (error: Error) => observe({ kind: "http-response-failed", level: "debug", err: error }));
  app.use(async (ctx, next) => {
    const startedAt = performance.now();
    ctx.set("X-Content-Type-Options", "nosniff");
    ctx.set("Cache-Control", "no-store");
    const matched = router.match(ctx.path, ctx.method);
    try {
      if (matched.path.length === 0) send(ctx, dialect, { kind: "unknown-path" });
      else if (!matched.route) {
        const allowed = [...new Set(matched.path.flatMap((layer) => layer.methods))];
        send(ctx, dialect, { kind: "wrong-method", allowed });
      } else await next();
    } catch (error) {
      send(ctx, dialect, refusalOf(error, observe, ctx));
    }
    observe({
      kind: "http-request",
      method: ctx.method,
      path: ctx.path,
      status: ctx.status,
      ms: Math.round(performance.now() - startedAt),
    });
  });
  app.use(router.routes());
  return app;
}

function makeRunner<Caller>(options: AppOptions<Caller>) {
  const { dialect, limits = noLimits, bodyLimitOctets } = options;
  const readBody = makeBodyReader(bodyLimitOctets);

  return async (declared: AnyEndpoint<Caller>, ctx: Context): Promise<void> => {
    const outcome = await attempt();
    if (!outcome.ok) send(ctx, dialect, outcome.error);
    else if (outcome.value instanceof RawReply) {
      ctx.status = outcome.value.status;
      ctx.type = outcome.value.contentType;
      ctx.body = outcome.value.body;
    } else ctx.body = outcome.value;

    async function attempt(): Promise<Result<unknown, Refusal>> {
      const caller = await authenticate(declared, ctx);
      if (!caller.ok) return caller;
      const barred = declared.authorise?.(caller.value);
      if (barred) return refuse(barred);
      const input = await readInput(declared, ctx);
      if (!input.ok) return input;
      return declared.act({
        caller: caller.value,
        ...input.value,
        headers: ctx.headers,
        clientAddress: ctx.ip,
        incoming: ctx.req,
      });
    }
  };

  async function authenticate(declared: AnyEndpoint<Caller>, ctx: Context): Promise<Result<Caller, Refusal>> {
    if (declared.open) return ok(undefined as Caller);
    const known = await limits.beforeAuthentication(ctx.ip);
    if (known) return refuse(known);
    const caller = await dialect.authenticate(ctx.headers);
    if (!caller.ok) {
      if (caller.error.kind === "unauthenticated") await limits.countFailure(ctx.ip);
      return caller;
    }
    const limited = await limits.countRequest(dialect.callerKey(caller.value), ctx.ip);
    return limited ? refuse(limited) : caller;
  }

  async function readInput(declared: AnyEndpoint<Caller>, ctx: Context) {
    const keepsNull = declared.keepsNull ?? (() => false);
    const pathParams = cleanFields(ctx.params, keepsNull, dialect.judgedFields);
    if (!pathParams.ok) return pathParams;
    const params = declared.params ? validateFields(declared.params, pathParams.value) : ok({});
    if (!params.ok) return params;
    if (declared.input === "stream") return ok({ params: params.value, fields: undefined, text: "" });
    const body = await readBody(ctx, declared.input === "text");
    if (!body.ok) return body;
    if (declared.input === "text") return ok({ params: params.value, fields: undefined, text: body.value as string });
    const fromQuery = declared.queryFields ?? (dialect.queryFields && ["GET", "HEAD", "DELETE"].includes(ctx.method));
    const raw = fromQuery ? withQuery(declared as AnyEndpoint<never>, body.value, ctx) : body.value;
    const cleaned = cleanFields(raw, keepsNull, dialect.judgedFields);
    if (!cleaned.ok) return cleaned;
    const fields = declared.fields ? validateFields(declared.fields, cleaned.value) : ok(undefined);
    return fields.ok ? ok({ params: params.value, fields: fields.value, text: "" }) : fields;
  }
}

/**
 * Fields of the query string stand in where the body has none. Everything is text there, so digits are read as a
 * number where the schema wants one; in a body a number must be a JSON number.
 */
function withQuery(declared: AnyEndpoint<never>, body: unknown, ctx: Context): unknown {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return body;
  const fields: Record<string, unknown> = {};
  for (const [key, given] of Object.entries(ctx.query)) {
    const value = Array.isArray(given) ? given[0]! : given!;
    fields[key] = /^(0|[1-9]\d{0,15})$/.test(value) && isNumberField(declared.fields, key) ? Number(value) : value;
  }
  return { ...fields, ...body };
}

function isNumberField(schema: ZodType | undefined, key: string): boolean {
  let field: ZodType | undefined = schema instanceof ZodObject ? schema.shape[key] : undefined;
  while (field instanceof ZodOptional || field instanceof ZodDefault) field = field.def.innerType as ZodType;
  return field instanceof ZodNumber;
}

function makeBodyReader(limitOctets: number) {
  const shared = { encoding: "utf-8", parsedMethods: ["GET", "HEAD", "POST", "PUT", "DELETE"] as string[] };
  const json = bodyParser({ ...shared, enableTypes: ["json"], jsonLimit: limitOctets, detectJSON: () => true });
  const text = bodyParser({
    ...shared,
    enableTypes: ["text"],
    // Octet by octet: the decoder of the package would put U+FFFD in the place of what is not UTF-8.
    encoding: "binary",
    textLimit: limitOctets,
    extendTypes: { text: ["*/*"] },
  });
  return async (ctx: Context, asText: boolean): Promise<Result<unknown, Refusal>> => {
    if (asText && !ctx.request.headers["content-type"]) ctx.request.headers["content-type"] = "text/plain";
    const received = countOctets(ctx);
    try {
      await (asText ? text : json)(ctx, async () => {});
    } catch (error) {
      const { status, code = "" } = error as { status?: number; code?: string };
      if (status === 413) return refuse({ kind: "too-large" });
      // A body that is not what its Content-Encoding says ends in an error of zlib's.
      if ((status !== undefined && status < 500) || /^(Z_|ERR_.*BROTLI|ERR__ERROR)/.test(code)) {
        return refuse({ kind: "malformed-json" });
      }
      throw error;
    }
    if (asText) return decodeUtf8(ctx.request.rawBody ?? "");
    return isFaithful(ctx.request.rawBody ?? "", received())
      ? ok(ctx.request.body ?? {})
      : refuse({ kind: "malformed-json" });
  };
}

/** Counts what arrives while somebody else reads it; undefined where it arrives compressed. */
function countOctets(ctx: Context): () => number | undefined {
  let octets = 0;
  ctx.req.on("data", (chunk: Buffer) => {
    octets += chunk.length;
  });
  return () => (ctx.get("Content-Encoding") === "" ? octets : undefined);
}

/** JSON is UTF-8 (RFC 8259 §8.1); the decoder puts U+FFFD, of three octets, in the place of each octet that is not. */
function isFaithful(text: string, octets: number | undefined): boolean {
  return octets === undefined || !text.includes("\uFFFD") || Buffer.byteLength(text) === octets;
}

function decodeUtf8(octets: string): Result<string, Refusal> {
  try {
    return ok(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(octets, "latin1")));
  } catch {
    return refuse(invalidField("body", "is not UTF-8"));
  }
}

function refusalOf(error: unknown, observe: Observe, ctx: Context): Refusal {
  const { code, name } = (error ?? {}) as { code?: string; name?: string };
  const databaseAway =
    name === "KnexTimeoutError" ||
    ["ECONNREFUSED", "ECONNRESET", "EPIPE", "57P01", "57P02", "57P03", "53300", "08006", "08003"].includes(
      code ?? "",
    ) ||
    /Connection terminated|Unable to acquire a connection|timeout exceeded when trying to connect/.test(String(error));
  observe({
    kind: databaseAway ? "database-away" : "request-failed",
    level: "error",
    method: ctx.method,
    path: ctx.path,
    err: error,
  });
  return databaseAway ? { kind: "unavailable" } : { kind: "internal" };
}

function send<Caller>(ctx: Context, dialect: Dialect<Caller>, refusal: Refusal): void {
  const { status, body, headers = {} } = dialect.toHttp(refusal);
  ctx.status = status;
  ctx.set(headers);
  ctx.body = body;
  if (refusal.kind === "wrong-method") ctx.set("Allow", refusal.allowed.join(", "));
  if (refusal.kind === "rate-limited") ctx.set("Retry-After", String(refusal.retryAfterSeconds));
  if (refusal.kind === "unavailable") ctx.set("Retry-After", "2");
}
