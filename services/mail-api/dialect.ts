import type { IncomingHttpHeaders } from "node:http";
import { hashApiKey } from "../core/api-key.ts";
import { delegationTokenOf, readDelegationToken } from "../core/delegation-token.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { SentenceCode } from "../core/sentences.ts";
import { type Dialect, inHeaders, makeAttemptDigest, readAuthorization, statusOf } from "../platform/http/dialect.ts";
import {
  findInstanceByKey,
  findInstanceByName,
  type Instance,
  isInstanceHost,
} from "../store/mail/instances/instances.ts";
import { refuseAway } from "../store/mail/machines.ts";
import type { MailServices } from "./services.ts";

/** Who calls: an instance, known by its key or through the console. */
export interface MailCaller {
  readonly instance: Instance;
  /** Of the user who is signed in at the console, where the request came through it. */
  readonly login?: string;
}

export const API_VERSION = "1.5";

/** Addresses are judged octet for octet by core/mail/address. */
const ADDRESS_FIELDS = new Set(["email", "remitente", "replyto", "reply-to", "cc_email", "bcc_email"]);

type DialectTools = Pick<MailServices, "db" | "keyRing" | "clock">;

/** How the mail API knows its callers and words its refusals. */
export function makeMailDialect({ db, keyRing, clock }: DialectTools): Dialect<MailCaller> {
  const digestOf = makeAttemptDigest();
  return {
    title: "Palomar mail API",
    version: API_VERSION,
    description:
      "Contacts, campaigns, sending, groups, filters, global variables, whitelist and events of one instance. Fields of GET and DELETE come in a JSON body or in the query string. A trailing slash is optional on every path. `Idempotency-Key` counts for the operations that send, and is ignored by all others.",
    base: "/v1",
    credentials: [inHeaders("Authorization")],
    queryFields: true,
    judgedFields: ADDRESS_FIELDS,
    async authenticate(headers) {
      const token = delegationTokenOf(headers.authorization);
      if (token !== undefined) return authenticateDelegation({ db, keyRing, clock }, token);
      const key = readAuthorization(headers);
      if (key === undefined) return refuse({ kind: "unauthenticated" });
      const instance = await findInstanceByKey(db, hashApiKey(keyRing, "instance", key), readHost(headers));
      if (instance === undefined) return refuse({ kind: "unauthenticated" });
      refuseAway(db, [instance.id]);
      return ok({ instance });
    },
    keyOf: (headers) => {
      if (delegationTokenOf(headers.authorization) !== undefined) return undefined;
      const key = readAuthorization(headers);
      if (key === undefined) return undefined;
      const host = readHost(headers);
      // At a host that no instance has, one key is tried on all of them: such hosts are one target, however many are made up.
      const target = async () => ((await isInstanceHost(db, host)) ? `instance at ${host}` : "any instance");
      return { digest: digestOf(key, host), target };
    },
    callerKey: ({ instance }) => `instance ${instance.id}`,
    say,
    toHttp: (refusal) => ({ status: statusOf(refusal), body: { status: "err", on: say(refusal) } }),
  };
}

/** The console, in the name of whoever is signed in there. */
async function authenticateDelegation(
  { db, keyRing, clock }: DialectTools,
  token: string,
): Promise<Result<MailCaller, Refusal>> {
  const delegation = readDelegationToken(keyRing, "mail", token, clock.nowMs());
  const instance = delegation.ok ? await findInstanceByName(db, delegation.value.instance) : undefined;
  if (!delegation.ok || !instance) return refuse({ kind: "unauthenticated" });
  refuseAway(db, [instance.id]);
  return ok({ instance, login: delegation.value.login });
}

/** The host a request came to: lower case, without the port and a last dot. */
function readHost(headers: IncomingHttpHeaders): string {
  return (headers.host ?? "").toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
}

function say(refusal: Refusal): string {
  switch (refusal.kind) {
    case "unauthenticated":
      return "apikey invalida";
    case "unacceptable":
      return BROKEN_REQUEST_WORDS[refusal.code] ?? refusal.message;
    case "forbidden":
    case "not-found":
    case "conflict":
      return refusal.message;
    case "unknown-path":
      return "no existe";
    case "wrong-method":
      return "metodo no permitido";
    case "malformed-json":
      return "json invalido";
    case "unknown-coding":
      return "content-encoding no admitido";
    case "missing-field":
      return `falta ${refusal.field}`;
    case "invalid-field":
      return `${refusal.field} invalido`;
    case "too-large":
      return "demasiado grande";
    case "rate-limited":
      return refusal.code === undefined ? "demasiadas peticiones" : refusal.message;
    case "unavailable":
      return "servicio no disponible";
    case "internal":
      return "error interno";
  }
}

/** HTTP that cannot be read. */
const BROKEN_REQUEST_WORDS: Readonly<Partial<Record<SentenceCode, string>>> = {
  "http-malformed": "peticion http invalida",
  "http-too-slow": "la peticion tardo demasiado",
  "http-expectation": "expectativa no admitida",
  "http-fields-too-large": "cabeceras demasiado grandes",
  "http-no-proxy": "metodo no permitido",
};
