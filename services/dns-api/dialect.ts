import type { IncomingHttpHeaders } from "node:http";
import { hashApiKey } from "../core/api-key.ts";
import { delegationTokenOf, readDelegationToken } from "../core/delegation-token.ts";
import { type Refusal, sentenceOf } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Db } from "../platform/db.ts";
import { type Dialect, readAuthorization, statusOf } from "../platform/http/dialect.ts";
import { SharedLookups } from "../platform/shared-lookups.ts";
import { type DnsCaller, findDelegatedDnsCaller, findDnsCaller } from "../store/dns/dns-callers.ts";

type Lookups = SharedLookups<DnsCaller | undefined>;

/** How this API authenticates, and how its refusals read: `{"msg": "<text>"}`. */
export function makeDialect(db: Db, secret: string): Dialect<DnsCaller> {
  // A busy caller's requests come together, and all with one key.
  const lookups: Lookups = new SharedLookups();
  return {
    title: "Palomar DNS API",
    description: DESCRIPTION,
    base: "/api/v1",
    credentialHeaders: ["Authorization", "Reseller"],
    queryFields: true,
    judgedFields: ZONE_FIELDS,
    authenticate: (headers) => authenticate({ db, secret, lookups }, headers),
    callerKey: (caller) =>
      caller.mode === "reseller" ? `reseller ${caller.resellerId}` : `company ${caller.companyId}`,
    toHttp: (refusal) => ({ status: statusOf(refusal), body: { msg: textOf(refusal) } }),
  };
}

/** Path parameters that name a zone: what is no name, NUL and all, is refused as a zone that does not exist. */
const ZONE_FIELDS: ReadonlySet<string> = new Set(["domain", "fqdn"]);

const DESCRIPTION =
  "Companies, master zones, SOA and resource records, zone files and history, transfer ACLs, resolver blocks and " +
  "response policy zones. The key decides the mode: a reseller's key sees all of its companies, a company's key the " +
  "zones of that company. A zone that does not exist and one that the caller may not see are answered alike.";

async function authenticate(
  { db, secret, lookups }: { readonly db: Db; readonly secret: string; readonly lookups: Lookups },
  headers: IncomingHttpHeaders,
): Promise<Result<DnsCaller, Refusal>> {
  const token = delegationTokenOf(headers.authorization);
  if (token !== undefined) return authenticateDelegation(db, secret, token);
  const key = readAuthorization(headers);
  const resellerId = headers.reseller;
  if (key === undefined || typeof resellerId !== "string") return refuse({ kind: "unauthenticated" });
  const keyHash = hashApiKey(secret, key);
  const caller = await lookups.find(`${keyHash.toString("latin1")}${resellerId}`, () =>
    findDnsCaller(db, resellerId, keyHash),
  );
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

/** The console, in the name of whoever is signed in there. */
async function authenticateDelegation(db: Db, secret: string, token: string): Promise<Result<DnsCaller, Refusal>> {
  const delegation = readDelegationToken(secret, "dns", token, Date.now());
  const caller = delegation.ok ? await findDelegatedDnsCaller(db, delegation.value) : undefined;
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

function textOf(refusal: Refusal): string {
  if (refusal.kind === "unauthenticated") return "invalid credentials";
  if (refusal.kind === "rate-limited") return "too many requests";
  return sentenceOf(refusal);
}
