import type { Context } from "koa";
import type { SpanAttributes } from "../observability/tracer.ts";
import { inSpan } from "../observability/tracing.ts";

/**
 * Runs a request as a span: of the trace that its caller names in `traceparent`, else of one of its own. A caller's
 * `tracestate` may hold anything, and is not taken over.
 * @param route what it asks for, its parameters by their names: what they stand for may be an address or a token
 * @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
 */
export function traceRequest(ctx: Context, route: string | undefined, answer: () => Promise<void>): Promise<void> {
  const isKnown = METHODS.includes(ctx.method);
  const name = isKnown ? ctx.method : "HTTP";
  return inSpan(
    route === undefined ? name : `${name} ${route}`,
    {
      kind: "server",
      parent: { traceparent: ctx.headers.traceparent },
      attributes: {
        "http.request.method": isKnown ? ctx.method : "_OTHER",
        "http.route": route,
        "url.scheme": ctx.protocol,
      },
      outcome: () => describeAnswer(ctx),
    },
    answer,
  );
}

/** Of RFC 9110 §9, and PATCH; others are a stranger's words. */
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/** A refusal is no failure of ours. */
function describeAnswer({ status, response }: Context): SpanAttributes {
  return {
    "http.response.status_code": status,
    "palomar.request_id": response.get("X-Request-Id") || undefined,
    "error.type": status >= 500 ? String(status) : undefined,
  };
}
