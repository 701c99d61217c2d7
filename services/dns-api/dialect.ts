import type { IncomingHttpHeaders } from "node:http";
import { hashApiKey } from "../core/api-key.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Db } from "../platform/db.ts";
import { type Dialect, readAuthorization, statusOf } from "../platform/http/dialect.ts";
import { type DnsCaller, findDnsCaller } from "../store/dns-callers.ts";

/** How this API authenticates, and how its refusals read: `{"msg": "<text>"}`. */
export function makeDialect(db: Db, secret: string): Dialect<DnsCaller> {
  return {
    title: "Palomar DNS API",
    description: DESCRIPTION,
    base: "/api/v1",
    credentialHeaders: ["Authorization", "Reseller"],
    queryFields: true,
    authenticate: (headers) => authenticate(db, secret, headers),
    callerKey: (caller) =>
      caller.mode === "reseller" ? `reseller ${caller.resellerId}` : `company ${caller.companyId}`,
    toHttp: (refusal) => ({ status: statusOf(refusal), body: { msg: textOf(refusal) } }),
  };
}

const DESCRIPTION =
  "Companies, master zones, SOA and resource records, zone files and history, transfer ACLs, resolver blocks and " +
  "response policy zones. The key decides the mode: a reseller's key sees all of its companies, a company's key the " +
  "zones of that company. A zone that does not exist and one that the caller may not see are answered alike.";

async function authenticate(db: Db, secret: string, headers: IncomingHttpHeaders): Promise<Result<DnsCaller, Refusal>> {
  const key = readAuthorization(headers);
  const resellerId = headers.reseller;
  if (key === undefined || typeof resellerId !== "string") return refuse({ kind: "unauthenticated" });
  const caller = await findDnsCaller(db, resellerId, hashApiKey(secret, key));
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

function textOf(refusal: Refusal): string {
  switch (refusal.kind) {
    case "unauthenticated":
      return "invalid credentials";
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict":
      return refusal.text;
    case "unknown-path":
      return "no such path";
    case "wrong-method":
      return `method not allowed, use ${refusal.allowed.join(", ")}`;
    case "malformed-json":
      return "malformed JSON";
    case "missing-field":
      return `missing field: ${refusal.field}`;
    case "invalid-field":
      return `invalid field: ${refusal.field}: ${refusal.reason}`;
    case "too-large":
      return "the request is too large";
    case "rate-limited":
      return "too many requests";
    case "unavailable":
      return "not available at present, try again";
    case "internal":
      return "internal error";
  }
}
