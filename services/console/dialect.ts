import type { IncomingHttpHeaders } from "node:http";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { type Credentials, type Dialect, inHeaders, statusOf } from "../platform/http/dialect.ts";
import { findSession, type SessionLifetime } from "../store/console/sessions.ts";
import type { AdminCaller } from "./caller.ts";
import type { ConsoleContext } from "./context.ts";
import { refusalBody, refusalJson } from "./refusal-body.ts";
import { refusalText } from "./refusal-text.ts";
import { csrfTokenMatches, csrfTokenOf, hashSessionToken, readSessionToken, SESSION_COOKIE } from "./session-cookie.ts";

const DESCRIPTION =
  "What the console does, for its pages and for operators' tools. Credentials: the session cookie of POST " +
  "/admin/v1/session, together with X-CSRF-Token on whatever changes something, or login and password as HTTP Basic.";

/** The console's API: a session or HTTP Basic with a console account, `{"msg"}` bodies. */
export function makeAdminDialect(context: ConsoleContext): Dialect<AdminCaller> {
  return {
    title: "Palomar console API",
    description: DESCRIPTION,
    base: "/admin/v1",
    credentials: [BASIC, SESSION],
    queryFields: true,
    authenticate: (headers, address) =>
      headers.authorization === undefined
        ? authenticateSession(context, headers)
        : authenticateBasic(context, headers.authorization, address),
    callerKey: ({ login }) => login,
    refusal: refusalJson,
    say: refusalText,
    toHttp: (refusal) => {
      const body = refusalBody(refusal);
      if (refusal.kind !== "unauthenticated") return { status: statusOf(refusal), body };
      return { status: 401, body, headers: { "WWW-Authenticate": BASIC_CHALLENGE } };
    },
  };
}

const BASIC: Credentials = { Basic: { type: "http", scheme: "basic" } };
const SESSION: Credentials = { Session: { type: "apiKey", in: "cookie", name: SESSION_COOKIE } };
/** Of what changes something. */
export const CREDENTIALS_OF_CHANGES: readonly Credentials[] = [BASIC, { ...SESSION, ...inHeaders("X-CSRF-Token") }];

export const BASIC_CHALLENGE = 'Basic realm="Palomar", charset="UTF-8"';

/** How long sessions last by the configuration. */
export function sessionLifetime({ config }: Pick<ConsoleContext, "config">): SessionLifetime {
  const { idleHours, sessionDays } = config.console;
  return { idleSeconds: idleHours * 3_600, mostSeconds: sessionDays * 86_400 };
}

async function authenticateSession(
  context: ConsoleContext,
  headers: IncomingHttpHeaders,
): Promise<Result<AdminCaller, Refusal>> {
  const { db, clock } = context;
  const token = readSessionToken(headers);
  if (token === undefined) return refuse({ kind: "unauthenticated" });
  const now = new Date(clock.nowMs());
  const found = await findSession(db, hashSessionToken(token), sessionLifetime(context), now);
  if (!found) return refuse({ kind: "unauthenticated" });
  const csrf = csrfTokenOf(token);
  const { userId, login, role, scope, hasTotp, sessionId } = found;
  const session = { id: sessionId, csrf, csrfGiven: csrfTokenMatches(csrf, headers["x-csrf-token"]) };
  return ok({ userId, login, role, scope, hasTotp, session });
}

/** RFC 7617; a colon parts login and password. */
async function authenticateBasic(
  { signIn }: ConsoleContext,
  authorization: string,
  address: string,
): Promise<Result<AdminCaller, Refusal>> {
  const encoded = /^Basic +([A-Za-z0-9+/=_-]+)$/i.exec(authorization)?.[1];
  const given = encoded === undefined ? "" : Buffer.from(encoded, "base64").toString("utf8");
  const colon = given.indexOf(":");
  if (colon < 1) return refuse({ kind: "unauthenticated" });
  const attempt = { login: given.slice(0, colon), password: given.slice(colon + 1), address };
  const checked = await signIn.withPassword(attempt);
  if (!checked.ok) return checked;
  const { id: userId, login, role, scope, hasTotp } = checked.value;
  return ok({ userId, login, role, scope, hasTotp, session: null });
}
