import type { IncomingHttpHeaders } from "node:http";
import { hashApiKey } from "../core/api-key.ts";
import { delegationTokenOf, readDelegationToken } from "../core/delegation-token.ts";
import { type Refusal, sentenceOf } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { TOKEN_PREFIX } from "../operations/dns/tokens.ts";
import { type Dialect, inHeaders, makeAttemptDigest, readAuthorization, statusOf } from "../platform/http/dialect.ts";
import { SharedLookups } from "../platform/lookups/shared-lookups.ts";
import { type DnsCaller, findDelegatedDnsCaller, findDnsCaller } from "../store/dns/dns-callers.ts";
import type { DnsApiContext } from "./context.ts";

type Lookups = SharedLookups<DnsCaller | undefined>;

type DialectTools = Pick<DnsApiContext, "db" | "keyRing" | "tokens" | "clock">;

/** How this API authenticates, and how its refusals read: `{"msg": "<text>"}`. */
export function makeDialect(context: DialectTools): Dialect<DnsCaller> {
  // A busy caller's requests come together, and all with one key.
  const lookups: Lookups = new SharedLookups();
  const digestOf = makeAttemptDigest();
  return {
    title: "Palomar DNS API",
    description: DESCRIPTION,
    base: "/api/v1",
    credentials: [inHeaders("Authorization", "Reseller"), inHeaders("Authorization")],
    queryFields: true,
    judgedFields: ZONE_FIELDS,
    authenticate: (headers, clientAddress) => authenticate(context, { headers, clientAddress, lookups }),
    keyOf: (headers) => {
      if (delegationTokenOf(headers.authorization) !== undefined) return undefined;
      const key = readAuthorization(headers);
      if (key === undefined) return undefined;
      const resellerId = String(headers.reseller);
      if (key.startsWith(TOKEN_PREFIX)) return { digest: digestOf(key), target: () => "a token" };
      // One key is tried on the reseller's and on those of all its companies.
      return {
        digest: digestOf(key, resellerId),
        target: () => `reseller ${resellerId.slice(0, LONGEST_RESELLER_ID)}`,
      };
    },
    // A reseller makes as many companies as it likes.
    groupKey: ({ resellerId }) => `reseller ${resellerId}`,
    callerKey: (caller) =>
      caller.mode === "reseller" ? `reseller ${caller.resellerId}` : `company ${caller.companyId}`,
    say,
    toHttp: (refusal) => ({ status: statusOf(refusal), body: { msg: say(refusal) } }),
  };
}

/** Path parameters that name a zone: what is no name, NUL and all, is refused as a zone that does not exist. */
const ZONE_FIELDS: ReadonlySet<string> = new Set(["domain", "fqdn"]);

/** No reseller has a longer one. */
const LONGEST_RESELLER_ID = 64;

const DESCRIPTION =
  "Companies, master zones, SOA and resource records, zone files and history, transfer ACLs, resolver blocks and " +
  "response policy zones. The key decides the mode: a reseller's key sees all of its companies, a company's key the " +
  "zones of that company. A token goes where a key does; it needs no Reseller. A zone that does not exist and one that the caller may not see are answered alike.";

async function authenticate(
  context: DialectTools,
  asked: { readonly headers: IncomingHttpHeaders; readonly clientAddress: string; readonly lookups: Lookups },
): Promise<Result<DnsCaller, Refusal>> {
  const { db, keyRing, tokens } = context;
  const { headers, clientAddress, lookups } = asked;
  const delegation = delegationTokenOf(headers.authorization);
  if (delegation !== undefined) return authenticateDelegation(context, delegation);
  const key = readAuthorization(headers);
  const resellerId = headers.reseller;
  if (key?.startsWith(TOKEN_PREFIX)) {
    const found = await tokens.find(key, clientAddress);
    if (found.ok || found.error.kind !== "unauthenticated") {
      const isAnothers = found.ok && resellerId !== undefined && found.value.resellerId !== resellerId;
      return isAnothers ? refuse({ kind: "unauthenticated" }) : found;
    }
  }
  if (key === undefined || typeof resellerId !== "string") return refuse({ kind: "unauthenticated" });
  const keyHash = hashApiKey(keyRing, "dns", key);
  const caller = await lookups.find(`${keyHash.toString("latin1")}${resellerId}`, () =>
    findDnsCaller(db, resellerId, keyHash),
  );
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

/** The console, in the name of whoever is signed in there. */
async function authenticateDelegation(
  { db, keyRing, clock }: DialectTools,
  token: string,
): Promise<Result<DnsCaller, Refusal>> {
  const delegation = readDelegationToken(keyRing, "dns", token, clock.nowMs());
  const caller = delegation.ok ? await findDelegatedDnsCaller(db, delegation.value) : undefined;
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

function say(refusal: Refusal): string {
  return sentenceOf(refusal).message;
}
