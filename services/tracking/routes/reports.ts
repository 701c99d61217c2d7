import { RateLimiterMemory } from "rate-limiter-flexible";
import { makeReportLocalPart, readReportToken } from "../../core/mail/tokens.ts";
import { sourceOf } from "../../platform/lookups/address-blocks.ts";
import { addPostedReport } from "../../store/mail/reports/posted-reports.ts";
import { withDeadline } from "../deadline.ts";
import { sendErrorPage } from "../pages.ts";
import { type Route, readWhole, refuseToken } from "../tools.ts";

const DATABASE_DEADLINE_MS = 5_000;
/** Of a report as it is sent. */
const MOST_OCTETS = 2 * 2 ** 20;
/** Bodies that are held at once, whoever sends them. */
const MOST_AT_ONCE = 16;
/** Reports about one sender domain, and of one source, in an hour. */
const MOST_IN_AN_HOUR = 200;
/** Together with those that came by mail; config/inbound.json has the room of those. */
const WAITING = { messages: 5_000, octets: 512 * 2 ** 20 };
const TYPES = /^application\/(?:tlsrpt\+(?:gzip|json)|gzip|json)$/;

/**
 * `/r/<token>`: takes a report about TLS by POST, as a domain's `_smtp._tls` record asks for it. It is stored, and read by
 * the bounce workers like one that came by mail.
 * @see RFC 8460 §3, §5.4
 */
export function makeReportRoute(): Route {
  const byDomain = new RateLimiterMemory({ points: MOST_IN_AN_HOUR, duration: 3_600 });
  const bySource = new RateLimiterMemory({ points: MOST_IN_AN_HOUR, duration: 3_600 });
  let held = 0;
  const hasTurn = (limiter: RateLimiterMemory, key: string) =>
    limiter.consume(key).then(
      () => true,
      () => false,
    );
  return {
    methods: ["POST"],
    async handle(ctx, token, tools) {
      const to = readReportToken(tools.keyRing, token);
      if (!to.ok) return refuseToken(ctx, tools);
      if (!TYPES.test(ctx.request.type.toLowerCase())) {
        ctx.status = 415;
        return;
      }
      const clientAddress = tools.clientAddress(ctx.req);
      const isInTime =
        held < MOST_AT_ONCE &&
        (await hasTurn(bySource, sourceOf(clientAddress))) &&
        (await hasTurn(byDomain, token.toLowerCase()));
      if (!isInTime) {
        ctx.set("Retry-After", "3600");
        return sendErrorPage(ctx, 429, "too-many");
      }
      held += 1;
      try {
        const body = await readWhole(ctx.req, MOST_OCTETS);
        if (body === undefined) return sendErrorPage(ctx, 413, "too-large");
        const reportAddress = makeReportLocalPart("tlsrpt", token.toLowerCase());
        const report = { reportAddress, clientAddress, octets: asMessage(body) };
        if (!(await withDeadline(addPostedReport(tools.db, report, WAITING), DATABASE_DEADLINE_MS))) {
          ctx.set("Retry-After", "3600");
          return sendErrorPage(ctx, 503, "unavailable");
        }
        ctx.status = 201;
        ctx.body = "";
      } finally {
        held -= 1;
      }
    },
  };
}

/** As mail carries it: the workers know reports in messages. */
function asMessage(body: Buffer): Buffer {
  const lines = body.toString("base64").replace(/.{76}/g, "$&\r\n");
  return Buffer.from(
    `Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n${lines}\r\n`,
    "latin1",
  );
}
