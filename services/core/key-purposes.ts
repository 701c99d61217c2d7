/**
 * What each key of the deployment is for, and which services have it. Everything follows this table: what a key file
 * holds, what a service asks for at its start, what `palomar secret keys` and `deploy/prepare` write, and what
 * docs/security.md says.
 *
 * A key is symmetric: whoever can check or open can also make. So what one service must not be able to make has a
 * purpose that it does not hold, and the same kind of token for two services has two purposes.
 */
interface Purpose {
  /** `token`: an HMAC, or another keyed hash. `seal`: AES-256-GCM of what is stored. */
  readonly kind: "token" | "seal";
  /** Services that make tokens of it, or seal. */
  readonly makes: readonly string[];
  /** Services that check, or open. */
  readonly reads: readonly string[];
}

export const KEY_PURPOSES = {
  /** The VERP return path of a delivery. */
  "return-path": { kind: "token", makes: ["delivery"], reads: ["bounce"] },
  /** The address, and the URL, to which reports about a sender domain come. */
  "report-address": { kind: "token", makes: ["console"], reads: ["bounce", "tracking"] },
  /** Events say which message they are of. */
  "message-id": { kind: "token", makes: ["delivery"], reads: ["mail-api", "tracking"] },
  "tracking-open": { kind: "token", makes: ["delivery"], reads: ["tracking"] },
  "tracking-click": { kind: "token", makes: ["delivery"], reads: ["tracking"] },
  /** Complaints that name no return path are attributed by it as well. */
  "tracking-unsubscribe": { kind: "token", makes: ["delivery"], reads: ["tracking", "bounce"] },
  "tracking-conversion": { kind: "token", makes: ["tracking"], reads: ["tracking"] },
  /** The console acts at the DNS API in the name of whoever is signed in. */
  "console-token-dns": { kind: "token", makes: ["console"], reads: ["dns-api"] },
  /** The same, at the mail API. */
  "console-token-mail": { kind: "token", makes: ["console"], reads: ["mail-api"] },
  /** Digests of the keys of resellers and companies. The digest key is stored; this one opens it (`api-key.ts`). */
  "api-key-dns": { kind: "seal", makes: ["console", "dns-api"], reads: ["dns-api"] },
  /** Digests of the keys of instances. */
  "api-key-instance": { kind: "seal", makes: ["console"], reads: ["mail-api"] },
  /** Digests of the keys of campaigns. */
  "api-key-campaign": { kind: "seal", makes: ["mail-api"], reads: ["submission"] },
  /** DKIM private keys. */
  "dkim-key": { kind: "seal", makes: ["console"], reads: ["delivery"] },
  /** Keys of the certificates of hosts of sender domains. */
  "host-certificate": { kind: "seal", makes: ["console"], reads: ["tracking"] },
  /** Keys of accounts at certificate authorities. */
  "acme-account": { kind: "seal", makes: ["console"], reads: ["console"] },
  /** DNSSEC private keys. */
  "dnssec-key": { kind: "seal", makes: ["dns-api"], reads: ["dns-api"] },
  /** TSIG secrets. */
  "tsig-key": { kind: "seal", makes: ["console", "dns-api"], reads: ["console", "dns-api", "dns-server"] },
  /** The snapshot that a name server keeps of ACLs and TSIG secrets. */
  "transfer-access": { kind: "seal", makes: ["dns-server"], reads: ["dns-server"] },
  "dns-cookie": { kind: "token", makes: ["dns-server"], reads: ["dns-server"] },
  /** The identifier that tells name servers apart (NSID). */
  "dns-nsid": { kind: "token", makes: ["dns-server"], reads: [] },
  /** Keys of companies, which the DNS API gives back. */
  "company-apikey": { kind: "seal", makes: ["dns-api"], reads: ["dns-api"] },
  /** Keys of campaigns, which the mail API gives back. */
  "campaign-apikey": { kind: "seal", makes: ["mail-api"], reads: ["mail-api"] },
  /** What signs the batches of a webhook. */
  "webhook-secret": { kind: "seal", makes: ["console"], reads: ["console", "tracking"] },
  /** Passwords of the mailboxes that are read for bounces. */
  "mailbox-password": { kind: "seal", makes: [], reads: ["bounce"] },
  /** Secrets of one-time codes. */
  "console-totp": { kind: "seal", makes: ["console"], reads: ["console"] },
  /** Whose backup a file is: the operator's alone. */
  backup: { kind: "token", makes: [], reads: [] },
} as const satisfies Readonly<Record<string, Purpose>>;

/** What a key of the deployment is for: the `info` of its derivation. */
export type KeyPurpose = keyof typeof KEY_PURPOSES;

type OfKind<Kind> = {
  [P in KeyPurpose]: (typeof KEY_PURPOSES)[P]["kind"] extends Kind ? P : never;
}[KeyPurpose];

/** Purposes that something stored is sealed for. */
export type SealPurpose = OfKind<"seal">;
/** Purposes that something is signed for. */
export type TokenPurpose = OfKind<"token">;

/** Whose API keys: digests of one kind say nothing of another's. */
export const API_KEY_KINDS = ["dns", "instance", "campaign"] as const;
export type ApiKeyKind = (typeof API_KEY_KINDS)[number];

/** All purposes, in the order of the table. */
export const ALL_PURPOSES = Object.keys(KEY_PURPOSES) as KeyPurpose[];

export function isKeyPurpose(text: string): text is KeyPurpose {
  return Object.hasOwn(KEY_PURPOSES, text);
}

/** The purposes whose keys a service has. */
export function purposesOf(service: string): KeyPurpose[] {
  return ALL_PURPOSES.filter((purpose) => {
    const { makes, reads }: Purpose = KEY_PURPOSES[purpose];
    return makes.includes(service) || reads.includes(service);
  });
}
