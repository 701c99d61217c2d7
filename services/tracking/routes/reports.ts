import type { IncomingMessage } from "node:http";
import type { Context } from "koa";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { fullBudget } from "../../core/mail/reports/report.ts";
import { makeReportLocalPart, readReportToken } from "../../core/mail/tokens.ts";
import { readReport } from "../../operations/mail/reports/read-report.ts";
import { withDeadline } from "../../platform/deadline.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { sourceOf } from "../../platform/lookups/address-blocks.ts";
import { spend } from "../../platform/spend.ts";
import { addPostedReport } from "../../store/mail/reports/posted-reports.ts";
import { sendErrorPage } from "../pages.ts";
import { type Route, readWhole, refuseToken, type TrackingTools } from "../tools.ts";

const DATABASE_DEADLINE_MS = 5_000;
/** Of a report as it is sent. */
const MOST_OCTETS = 2 * 2 ** 20;
const MOST_READING_MS = 2_000;
/** For a body to come whole. */
const MOST_SENDING_MS = 10_000;
/** Bodies that are held at once, of everybody and of one source. */
const BODIES = { atOnce: 16, perClient: 4 };
/** Requests of one source that wait for their turn. */
const MOST_WAITING_OF_SOURCE = 4;
/** Bodies of one source in an hour, whatever they are. */
const MOST_OF_SOURCE = 200;
/** Of them, those about one sender domain: who reports about it does so once a day. */
const MOST_OF_SOURCE_ABOUT_DOMAIN = 20;
/** Reports about one sender domain, of all sources together, in an hour. */
const MOST_ABOUT_DOMAIN = 2_000;
/** Together with those that came by mail; config/inbound.json has the room of those. */
const WAITING = { messages: 5_000, octets: 512 * 2 ** 20 };
const TYPES = /^application\/(?:tlsrpt\+(?:gzip|json)|gzip|json)$/;

/**
 * `/r/<token>`: takes a report about TLS by POST, as a domain's `_smtp._tls` record asks for it. What can be
 * read is stored, and counted by the bounce workers like one that came by mail.
 * @see RFC 8460 §3, §5.4
 */
export function makeReportRoute(): Route {
  const bySource = new RateLimiterMemory({ points: MOST_OF_SOURCE, duration: 3_600 });
  const bySourceAndDomain = new RateLimiterMemory({ points: MOST_OF_SOURCE_ABOUT_DOMAIN, duration: 3_600 });
  const byDomain = new RateLimiterMemory({ points: MOST_ABOUT_DOMAIN, duration: 3_600 });
  const turns = new FairTurns(BODIES);
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
      const source = sourceOf(clientAddress);
      const domain = token.toLowerCase();
      const isInTime =
        turns.waitingOf(source) < MOST_WAITING_OF_SOURCE &&
        (await spend(bySource, source)) &&
        (await spend(bySourceAndDomain, `${domain} ${source}`));
      if (!isInTime) return refuseForNow(ctx);
      await turns.run(source, () => take(ctx, tools, { domain, clientAddress }));
    },
  };

  async function take(
    ctx: Context,
    { db, clock }: TrackingTools,
    { domain, clientAddress }: { readonly domain: string; readonly clientAddress: string },
  ): Promise<void> {
    const body = await readInTime(ctx.req);
    if (body === undefined) return sendErrorPage(ctx, 413, "too-large");
    // What is no report counts against its source alone.
    if (!(await isTlsReport(body, new Date(clock.nowMs())))) {
      ctx.status = 400;
      return;
    }
    if (!(await spend(byDomain, domain))) return refuseForNow(ctx);
    const reportAddress = makeReportLocalPart("tlsrpt", domain);
    const report = { reportAddress, clientAddress, octets: asMessage(body) };
    if (!(await withDeadline(addPostedReport(db, report, WAITING), DATABASE_DEADLINE_MS))) {
      ctx.set("Retry-After", "3600");
      return sendErrorPage(ctx, 503, "unavailable");
    }
    ctx.status = 201;
    ctx.body = "";
  }
}

/** A body that does not come in time ends with its connection. */
async function readInTime(request: IncomingMessage): Promise<Buffer | undefined> {
  const late = setTimeout(() => request.destroy(), MOST_SENDING_MS);
  try {
    return await readWhole(request, MOST_OCTETS);
  } finally {
    clearTimeout(late);
  }
}

/** Of XML nothing is read: aggregates come by mail. */
async function isTlsReport(body: Buffer, now: Date): Promise<boolean> {
  const read = await readReport(body, now, { ...fullBudget(), elements: 0, readingMs: MOST_READING_MS });
  return read.ok && read.value.kind === "tls";
}

function refuseForNow(ctx: Context): void {
  ctx.set("Retry-After", "3600");
  sendErrorPage(ctx, 429, "too-many");
}

/** As mail carries it: the workers know reports in messages. */
function asMessage(body: Buffer): Buffer {
  const lines = body.toString("base64").replace(/.{76}/g, "$&\r\n");
  return Buffer.from(
    `Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n${lines}\r\n`,
    "latin1",
  );
}
