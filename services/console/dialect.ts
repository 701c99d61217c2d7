import type { IncomingHttpHeaders } from "node:http";
import { passwordMatches } from "../core/password.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Db } from "../platform/db.ts";
import { type Dialect, statusOf } from "../platform/http/dialect.ts";
import { findUser, type User } from "../store/users.ts";

/** Who calls the operator API. */
export type AdminCaller = User;

/** The operator API: HTTP Basic with a console account, `{"error"}` bodies. */
export function makeAdminDialect(db: Db): Dialect<AdminCaller> {
  return {
    title: "Palomar operator API",
    description: "What the console does, for operators and their tools. Credentials: HTTP Basic.",
    base: "/admin/v1",
    credentialHeaders: ["Authorization"],
    queryFields: true,
    authenticate: (headers) => authenticate(db, headers),
    callerKey: ({ login }) => login,
    toHttp: (refusal) => {
      const body = { error: textOf(refusal) };
      if (refusal.kind !== "unauthenticated") return { status: statusOf(refusal), body };
      return { status: 401, body, headers: { "WWW-Authenticate": 'Basic realm="Palomar"' } };
    },
  };
}

/** Stands in for an account that does not exist, so that a guess costs the same either way. */
const NOBODY = `scrypt$32768$8$1$${"A".repeat(22)}$${"A".repeat(43)}`;

async function authenticate(db: Db, headers: IncomingHttpHeaders): Promise<Result<AdminCaller, Refusal>> {
  const encoded = /^Basic +([A-Za-z0-9+/=_-]+)$/i.exec(headers.authorization ?? "")?.[1];
  if (encoded === undefined) return refuse({ kind: "unauthenticated" });
  const given = Buffer.from(encoded, "base64").toString("utf8");
  const colon = given.indexOf(":");
  const user = colon > 0 && !given.includes("\0") ? await findUser(db, given.slice(0, colon)) : undefined;
  const matches = await passwordMatches(given.slice(colon + 1), user?.passwordHash ?? NOBODY);
  return user && matches ? ok(user) : refuse({ kind: "unauthenticated" });
}

/** Only operators may. */
export function operatorsOnly(caller: AdminCaller): Refusal | undefined {
  return caller.role === "operator" ? undefined : { kind: "forbidden", text: "for operators only" };
}

function textOf(refusal: Refusal): string {
  switch (refusal.kind) {
    case "unauthenticated":
      return "login required";
    case "unknown-path":
      return "no such path";
    case "wrong-method":
      return "method not allowed";
    case "malformed-json":
      return "malformed JSON";
    case "missing-field":
      return `missing field: ${refusal.field}`;
    case "invalid-field":
      return `invalid field: ${refusal.field}: ${refusal.reason}`;
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict":
      return refusal.text;
    case "too-large":
      return "too large";
    case "rate-limited":
      return "too many requests";
    case "unavailable":
      return "temporarily unavailable";
    case "internal":
      return "internal error";
  }
}
