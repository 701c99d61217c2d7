import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";

import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { RawReply, type Request } from "../../platform/http/endpoint.ts";
import { beginAudit, settleAudit, withdrawAudit } from "../../store/console/audit.ts";
import { addSession, endSession, endSessionOf, listSessions } from "../../store/console/sessions.ts";
import { type StoredUser, setPassword, USER_ROLES } from "../../store/console/users.ts";
import type { AdminCaller } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { sessionLifetime } from "../dialect.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import {
  cameOverTls,
  csrfTokenOf,
  endedSessionCookie,
  hashSessionToken,
  readSessionToken,
  sessionCookie,
} from "../session-cookie.ts";

const SESSION_TOKEN_OCTETS = 32;
const LONGEST_AGENT = 200;

/** NIST SP 800-63B-4 §3.1.1.2 wants length and nothing else. */
export const newPassword = z.string().min(12, "has-at-least-characters").max(512, "not-longer-than-characters");

const sessionReply = z.object({
  login: z.string(),
  role: z.enum(USER_ROLES),
  scope: z.string().nullable(),
  csrf: z.string().nullable().meta({ description: "for X-CSRF-Token; null where HTTP Basic was used" }),
  totp: z.boolean(),
});

/** Signing in and out, passwords, and one's own sessions. */
export const makeSessionEndpoints: MakeConsoleEndpoints = (context) => [
  ...signingIn(context),
  ...passwordChange(context),
  ...ownSessions(context),
];

/** The session of this browser. */
const signingIn: MakeConsoleEndpoints = (context) => {
  const { db, signIn } = context;
  return [
    consoleEndpoint({
      method: "POST",
      path: "/session",
      summary: "Sign in: sets the session cookie",
      open: true,
      fields: z.object({
        login: z.string().max(256),
        password: z.string().max(1024),
        code: z.string().max(64).optional(),
      }),
      reply: sessionReply,
      act: async (request) => {
        const { fields, clientAddress: address } = request;
        if (mayBeOfAnotherPage(request.headers)) return refuse(problem("cross-site"));
        const checked = await signIn.withCode({ ...fields, address });
        const begun = checked.ok ? await beginSession(context, checked.value, request) : checked;
        if (begun.ok) return begun;
        if (begun.error.kind === "code-required") {
          return ok(jsonReply(401, { msg: "one-time code required", totp: true }));
        }
        if (begun.error.kind === "unauthenticated") {
          return ok(jsonReply(401, { msg: "login or password is wrong" }));
        }
        return refuse(begun.error);
      },
    }),
    consoleEndpoint({
      method: "GET",
      path: "/session",
      summary: "Who is signed in",
      reply: sessionReply,
      act: async ({ caller }) => ok(showCaller(caller)),
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/session",
      summary: "Sign out: ends the session",
      change: { action: "session.end", object: ({ caller }) => caller.login },
      reply: z.object({ msg: z.literal("signed out") }),
      act: async ({ headers, incoming }) => {
        const token = readSessionToken(headers);
        if (token !== undefined) await endSessionOf(db, hashSessionToken(token));
        return ok(jsonReply(200, { msg: "signed out" }, { "Set-Cookie": endedSessionCookie(cameOverTls(incoming)) }));
      },
    }),
  ];
};

const passwordChange: MakeConsoleEndpoints = ({ db, signIn }) => [
  consoleEndpoint({
    method: "PUT",
    path: "/password",
    summary: "Change one's own password; ends the other sessions",
    change: { action: "password.change", object: ({ caller }) => caller.login },
    fields: z.object({ current: z.string().max(1024), new: newPassword }),
    reply: z.object({ msg: z.literal("password changed") }),
    act: async ({ caller, fields, clientAddress: address }) => {
      const { login, session } = caller;
      const confirmed = await signIn.confirmPassword({ login, password: fields.current, address });
      if (!confirmed.ok) return confirmed;
      const hashed = await signIn.hash({ login, address }, fields.new);
      if (!hashed.ok) return hashed;
      await setPassword(db, login, hashed.value, session?.id ?? null);
      return ok({ msg: "password changed" as const });
    },
  }),
];

/** The sessions of all browsers of the same login. */
const ownSessions: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/sessions",
    summary: "One's own sessions, the latest first",
    reply: z.object({
      sessions: z.array(
        z.object({
          id: z.int(),
          created: z.string(),
          seen: z.string(),
          address: z.string(),
          agent: z.string(),
          current: z.boolean(),
        }),
      ),
    }),
    act: async ({ caller }) => {
      const sessions = await listSessions(db, caller.userId);
      return ok({
        sessions: sessions.map(({ id, createdAt, seenAt, address, agent }) => ({
          id,
          created: createdAt.toISOString(),
          seen: seenAt.toISOString(),
          address,
          agent,
          current: id === caller.session?.id,
        })),
      });
    },
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/sessions/:id",
    summary: "End one of one's own sessions",
    params: z.object({ id: z.string().regex(/^[1-9]\d{0,14}$/, "session-number-form") }),
    change: { action: "session.end", object: ({ params }) => params.id },
    reply: z.object({ msg: z.literal("ended") }),
    act: async ({ caller, params }) =>
      (await endSession(db, caller.userId, Number(params.id)))
        ? ok({ msg: "ended" as const })
        : refuse(problem("no-such-session")),
  }),
];

/**
 * A session of its own for every sign-in: the one that the visitor had before ends, so that none can be planted.
 * @returns refused when what the visitor knew has been changed since it was judged
 */
async function beginSession(
  { db, clock, ...context }: ConsoleContext,
  user: StoredUser,
  {
    headers,
    incoming,
    clientAddress,
  }: Pick<Request<AdminCaller, object, unknown>, "headers" | "incoming" | "clientAddress">,
): Promise<Result<RawReply, Refusal>> {
  const now = new Date(clock.nowMs());
  const formerToken = readSessionToken(headers);
  if (formerToken !== undefined) await endSessionOf(db, hashSessionToken(formerToken));
  const token = randomBytes(SESSION_TOKEN_OCTETS).toString("base64url");
  const { login, role, scope, hasTotp } = user;
  const entry = { actor: login, address: clientAddress, action: "session.begin", object: login, detail: {} };
  const entryId = await beginAudit(db, { ...entry, about: { role, scope } }, now);
  const agent = (headers["user-agent"] ?? "").slice(0, LONGEST_AGENT);
  const session = { tokenHash: hashSessionToken(token), address: clientAddress, agent, now };
  if (!(await addSession(db, user, session))) {
    await withdrawAudit(db, entryId);
    return refuse({ kind: "unauthenticated" });
  }
  await settleAudit(db, entryId);
  const { mostSeconds } = sessionLifetime(context);
  return ok(
    jsonReply(
      200,
      { login, role, scope, csrf: csrfTokenOf(token), totp: hasTotp },
      { "Set-Cookie": sessionCookie(token, mostSeconds, cameOverTls(incoming)) },
    ),
  );
}

function showCaller({ login, role, scope, session, hasTotp }: AdminCaller): z.input<typeof sessionReply> {
  return { login, role, scope, csrf: session?.csrf ?? null, totp: hasTotp };
}

function jsonReply(status: number, body: object, headers: Readonly<Record<string, string>> = {}): RawReply {
  return new RawReply("application/json", JSON.stringify(body), status, headers);
}

/**
 * A page of somebody else's must not sign a visitor in as somebody else. Not every browser says where a request comes from:
 * but a form of another page cannot send JSON, and its script only where CORS allows it.
 */
function mayBeOfAnotherPage(headers: IncomingHttpHeaders): boolean {
  const isJson = /^application\/json\b/i.test(headers["content-type"] ?? "");
  return headers["sec-fetch-site"] === "cross-site" || (headers.origin !== undefined && !isJson);
}
