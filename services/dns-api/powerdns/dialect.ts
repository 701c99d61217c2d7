import type { IncomingHttpHeaders } from "node:http";
import { hashApiKey } from "../../core/api-key.ts";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { SentenceCode } from "../../core/sentences.ts";
import { TOKEN_PREFIX } from "../../operations/dns/tokens.ts";
import { type Dialect, inHeaders, makeAttemptDigest, statusOf } from "../../platform/http/dialect.ts";
import { SharedLookups } from "../../platform/lookups/shared-lookups.ts";
import { type DnsCaller, findCallerByKey } from "../../store/dns/dns-callers.ts";
import type { DnsApiContext } from "../context.ts";

/** How PowerDNS's API is spoken: the key in `X-API-Key`, refusals as `{"error": "<text>"}`. */
export function makePowerdnsDialect(
  main: Dialect<DnsCaller>,
  context: Pick<DnsApiContext, "db" | "keyRing" | "tokens">,
): Dialect<DnsCaller> {
  const lookups = new SharedLookups<DnsCaller | undefined>();
  const digestOf = makeAttemptDigest();
  return {
    title: "PowerDNS-compatible API",
    description: "",
    base: "/api/v1/servers",
    credentials: [inHeaders("X-API-Key")],
    jsonType: "application/json",
    queryFields: true,
    authenticate: (headers, clientAddress) => authenticate(context, { headers, clientAddress, lookups }),
    keyOf: (headers) => {
      const key = keyIn(headers);
      return key === undefined ? undefined : { digest: digestOf(key), target: () => "a key of PowerDNS's API" };
    },
    callerKey: main.callerKey,
    ...(main.groupKey && { groupKey: main.groupKey }),
    say,
    toHttp: (refusal) => ({ status: httpStatusOf(refusal), body: { error: say(refusal) } }),
  };
}

async function authenticate(
  { db, keyRing, tokens }: Pick<DnsApiContext, "db" | "keyRing" | "tokens">,
  asked: {
    readonly headers: IncomingHttpHeaders;
    readonly clientAddress: string;
    readonly lookups: SharedLookups<DnsCaller | undefined>;
  },
): Promise<Result<DnsCaller, Refusal>> {
  const key = keyIn(asked.headers);
  if (key === undefined) return refuse({ kind: "unauthenticated" });
  if (key.startsWith(TOKEN_PREFIX)) {
    const found = await tokens.find(key, asked.clientAddress);
    if (found.ok || found.error.kind !== "unauthenticated") return found;
  }
  const keyHash = hashApiKey(keyRing, "dns", key);
  const caller = await asked.lookups.find(keyHash.toString("latin1"), () => findCallerByKey(db, keyHash));
  return caller ? ok(caller) : refuse({ kind: "unauthenticated" });
}

function keyIn(headers: IncomingHttpHeaders): string | undefined {
  const given = headers["x-api-key"];
  return typeof given === "string" && given !== "" ? given : undefined;
}

/** Refusals of what all doors share, in the words that programs look for. */
const WORDS: Readonly<Partial<Record<SentenceCode, string>>> = {
  "zone-unknown": "Not Found",
  "zone-exists": "Conflict",
  "cname-beside-data": "Conflicts with pre-existing RRset",
  "cname-at-apex": "Conflicts with pre-existing RRset",
  "second-record": "only one such record is allowed",
  "outside-zone": "Name is out of zone",
};

function say(refusal: Refusal): string {
  const { code, message } = sentenceOf(refusal);
  if (refusal.kind === "unauthenticated") return "Unauthorized";
  if (refusal.kind === "unknown-path") return "Not Found";
  if (refusal.kind === "wrong-method") return "Method Not Allowed";
  if (refusal.kind === "missing-field") return `Key '${refusal.field}' not present`;
  if (refusal.kind === "invalid-field" && refusal.field === "ttl") {
    return `Key 'ttl' is not a positive Integer: ${refusal.reason.message}`;
  }
  if (refusal.kind === "invalid-field" && refusal.field.endsWith("modified_at")) {
    return `Key 'modified_at' is not a valid number: ${refusal.reason.message}`;
  }
  const words = WORDS[code];
  return words === undefined ? message : `${words}: ${message}`;
}

function httpStatusOf(refusal: Refusal): number {
  if (refusal.kind === "unauthenticated") return 401;
  if (refusal.kind === "unacceptable" && refusal.code === "zone-unknown") return 404;
  if (refusal.kind === "unacceptable" && refusal.code === "zone-exists") return 409;
  const isOfContent = ["unacceptable", "invalid-field", "missing-field"].includes(refusal.kind);
  return isOfContent ? 422 : statusOf(refusal);
}
