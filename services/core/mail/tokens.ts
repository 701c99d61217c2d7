/**
 * Signed tokens that go out with a message, or stand in the DNS, and come back from strangers: the VERP return path, the
 * address for reports about a sender domain, tracking and unsubscribe tokens, and the Message-ID.
 */
import { createHash, createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import type { TokenPurpose } from "../key-purposes.ts";
import type { KeyRing } from "../key-ring.ts";
import { ok, type Result, refuse } from "../result.ts";

/** What a VERP return path stands for: one delivery, that is one recipient of one batch. */
interface BounceTokenClaims {
  /** Row id of the delivery: a whole number that JavaScript has exactly. */
  readonly deliveryId: number;
  /** Last moment at which a bounce still counts; stored to the day, rounded up. */
  readonly expiresAt: Date;
}

/** Why a token was not accepted. Only a token that is none of these may change a contact. */
export type TokenRefusal = "malformed" | "forged" | "expired";

/** What a report address stands for. */
export interface ReportTokenClaims {
  readonly instanceId: number;
  /** {@link domainDigest} of the sender domain. */
  readonly domainDigest: string;
}

/** Least time after an attempt for which its bounces are believed. */
const BOUNCE_TOKEN_DAYS = 30;
/** The end of that time is a multiple of this. */
const EXPIRY_STEP_DAYS = 5;

const MILLISECONDS_PER_DAY = 86_400_000;
const EXPIRY_OCTETS = 2;
/** Of a whole number that JavaScript has exactly, below 2^53. */
const MAX_ID_OCTETS = 7;
/** 120 bits: more than the 80 that resist guessing, and a whole number of base32 characters. */
const BOUNCE_MAC_OCTETS = 15;
const TOKEN_MAC_OCTETS = 16;
const BASE32_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
const BOUNCE_LOCAL_PART = /^b\+([a-z2-7]+)\.([a-z2-7]{24})$/;
/** 64 bits of a domain's digest tell the domains of one instance apart; the signature says that it is one of them. */
const DOMAIN_DIGEST_OCTETS = 8;
const REPORT_TOKEN = /^([a-z2-7]+)\.([a-z2-7]{24})$/;
const REPORT_LOCAL_PART = /^(?:dmarc|tlsrpt)\+(.+)$/;

/**
 * When the return path of an attempt stops to count. Attempts within days of each other have the same one: a receiver that
 * puts strangers off (RFC 6647 §2.3) knows a message again by its return path.
 */
export function bounceTokenExpiry(acceptedAt: Date, now: Date): Date {
  const stepMs = EXPIRY_STEP_DAYS * MILLISECONDS_PER_DAY;
  const steps = Math.max(0, Math.floor((now.getTime() - acceptedAt.getTime()) / stepMs)) + 1;
  return new Date(acceptedAt.getTime() + steps * stepMs + BOUNCE_TOKEN_DAYS * MILLISECONDS_PER_DAY);
}

/**
 * Local part of the VERP return path of one delivery: `b+<id>.<hmac>`.
 * At most 43 octets, lower case, and read back whatever case a relay turned it into.
 * @throws RangeError when the id is none or the expiry 16 bits of days (year 2149)
 */
export function makeBounceToken(keyRing: KeyRing, claims: BounceTokenClaims): string {
  const payload = encodeClaims(claims);
  return `b+${toBase32(payload)}.${toBase32(bounceMac(keyRing.keyFor("return-path"), payload))}`;
}

/**
 * Read the local part of a return path.
 * @param localPart what stands before the @-sign of the bounce's recipient
 * @returns the delivery, or: `malformed` (not one of ours by its looks), `forged` (bad signature), `expired`
 */
export function readBounceToken(
  keyRing: KeyRing,
  localPart: string,
  now: Date,
): Result<BounceTokenClaims, TokenRefusal> {
  const [, payloadText, macText] = BOUNCE_LOCAL_PART.exec(localPart.toLowerCase()) ?? [];
  if (payloadText === undefined || macText === undefined) return refuse("malformed");
  const payload = fromBase32(payloadText);
  if (payload === null || payload.length <= EXPIRY_OCTETS || payload.length > EXPIRY_OCTETS + MAX_ID_OCTETS) {
    return refuse("malformed");
  }
  const mac = fromBase32(macText);
  const isOurs = (one: KeyObject) => mac !== null && timingSafeEqual(mac, bounceMac(one, payload));
  if (!keyRing.keysFor("return-path").some(isOurs)) return refuse("forged");

  const expiresAt = new Date(payload.readUInt16BE(0) * MILLISECONDS_PER_DAY);
  if (now > expiresAt) return refuse("expired");
  return ok({ deliveryId: Number.parseInt(payload.toString("hex", EXPIRY_OCTETS), 16), expiresAt });
}

/**
 * Token of the address and of the URL to which reports about a sender domain come: `<id>.<hmac>`, at most 49 octets, in
 * lower case. It does not expire, as it stands in the DNS.
 * @param sender.domain A-labels in lower case
 */
export function makeReportToken(
  keyRing: KeyRing,
  sender: { readonly instanceId: number; readonly domain: string },
): string {
  const digest = Buffer.from(domainDigest(sender.domain), "hex");
  const payload = Buffer.concat([digest, wholeNumberOctets(sender.instanceId)]);
  return `${toBase32(payload)}.${toBase32(bounceMac(keyRing.keyFor("report-address"), payload))}`;
}

/** Local part of the address to which DMARC aggregates (`dmarc`) or reports about TLS (`tlsrpt`) come. */
export function makeReportLocalPart(kind: "dmarc" | "tlsrpt", token: string): string {
  return `${kind}+${token}`;
}

/** Reads a token that `makeReportToken` made, whatever case a relay turned it into. */
export function readReportToken(
  keyRing: KeyRing,
  token: string,
): Result<ReportTokenClaims, Exclude<TokenRefusal, "expired">> {
  const [, payloadText, macText] = REPORT_TOKEN.exec(token.toLowerCase()) ?? [];
  const payload = payloadText === undefined ? null : fromBase32(payloadText);
  const octets = (payload?.length ?? 0) - DOMAIN_DIGEST_OCTETS;
  if (payload === null || macText === undefined || octets < 1 || octets > MAX_ID_OCTETS) return refuse("malformed");
  const mac = fromBase32(macText);
  const isOurs = (one: KeyObject) => mac !== null && timingSafeEqual(mac, bounceMac(one, payload));
  if (!keyRing.keysFor("report-address").some(isOurs)) return refuse("forged");
  return ok({
    domainDigest: payload.toString("hex", 0, DOMAIN_DIGEST_OCTETS),
    instanceId: Number.parseInt(payload.toString("hex", DOMAIN_DIGEST_OCTETS), 16),
  });
}

/** The same for the local part of a recipient. */
export function readReportLocalPart(keyRing: KeyRing, localPart: string): ReturnType<typeof readReportToken> {
  const [, token] = REPORT_LOCAL_PART.exec(localPart.toLowerCase()) ?? [];
  return token === undefined ? refuse("malformed") : readReportToken(keyRing, token);
}

/** What stands for a sender domain in a report address, in hexadecimal digits. */
export function domainDigest(domain: string): string {
  return createHash("sha256")
    .update(domain)
    .digest("hex")
    .slice(0, 2 * DOMAIN_DIGEST_OCTETS);
}

/**
 * Opaque signed token for a URL (tracking, unsubscribe, preferences).
 * The payload is signed, not encrypted: put identifiers into it, never personal data.
 * @param purpose separates kinds of token: one made for a click is forged for an unsubscription
 * @returns base64url without padding
 */
export function makeToken(keyRing: KeyRing, purpose: TokenPurpose, payload: Uint8Array | string): string {
  const octets = typeof payload === "string" ? Buffer.from(payload, "utf8") : payload;
  return Buffer.concat([tokenMac(keyRing.keyFor(purpose), octets), octets]).toString("base64url");
}

/** Payload of a token that `makeToken` made with the same keys and purpose. */
export function readToken(
  keyRing: KeyRing,
  purpose: TokenPurpose,
  token: string,
): Result<Buffer, Exclude<TokenRefusal, "expired">> {
  const octets = Buffer.from(token, "base64url");
  const isOneSpelling = octets.toString("base64url") === token; // decoding skips what it does not know
  if (!isOneSpelling || octets.length < TOKEN_MAC_OCTETS) return refuse("malformed");
  const payload = octets.subarray(TOKEN_MAC_OCTETS);
  const mac = octets.subarray(0, TOKEN_MAC_OCTETS);
  const isOurs = keyRing.keysFor(purpose).some((one) => timingSafeEqual(mac, tokenMac(one, payload)));
  return isOurs ? ok(payload) : refuse("forged");
}

/**
 * Message-ID in the sender's domain, angle brackets included: `<d+id>.<hmac>`, or `m` where copies share it. It says what
 * it is of, so that whoever has it finds the message.
 * The same identity always gets the same one, so that a retry after a lost reply is recognised as a duplicate.
 * @param asciiDomain the sender's domain as A-labels
 * @see RFC 5322 §3.6.4
 */
export function makeMessageId(keyRing: KeyRing, { of, id }: MessageIdentity, asciiDomain: string): string {
  const digest = createHmac("sha256", keyRing.keyFor("message-id")).update(`${of} ${id}`).digest();
  const name = `${of[0]}${toBase32(wholeNumberOctets(id))}.${toBase32(digest.subarray(0, BOUNCE_MAC_OCTETS))}`;
  return `<${name}@${asciiDomain}>`;
}

/** What is one message: a delivery, or the message that its copies share. */
export interface MessageIdentity {
  readonly of: "delivery" | "message";
  readonly id: number;
}

/**
 * What a Message-ID or a return path of ours names; undefined for others. It proves nothing: whoever asks is shown what is
 * theirs anyway.
 */
export function readMessageName(text: string): MessageIdentity | undefined {
  const [, kind, named] = /^<?([dm])([a-z2-7]{2,12})\.[a-z2-7]{24}@[^@\s]+>?$/.exec(text.toLowerCase()) ?? [];
  const octets = named === undefined ? null : fromBase32(named);
  if (octets !== null) return identityOf(kind === "d" ? "delivery" : "message", octets);
  const [, claims] = BOUNCE_LOCAL_PART.exec(text.toLowerCase().replace(/^<|@.*$/g, "")) ?? [];
  const claimed = claims === undefined ? null : fromBase32(claims);
  return claimed === null ? undefined : identityOf("delivery", claimed.subarray(EXPIRY_OCTETS));
}

function identityOf(of: MessageIdentity["of"], octets: Buffer): MessageIdentity | undefined {
  if (octets.length === 0 || octets.length > MAX_ID_OCTETS) return undefined;
  const id = Number.parseInt(octets.toString("hex"), 16);
  return Number.isSafeInteger(id) ? { of, id } : undefined;
}

function encodeClaims({ deliveryId, expiresAt }: BounceTokenClaims): Buffer {
  const expiryDay = Buffer.alloc(EXPIRY_OCTETS);
  expiryDay.writeUInt16BE(Math.ceil(expiresAt.getTime() / MILLISECONDS_PER_DAY));
  return Buffer.concat([expiryDay, wholeNumberOctets(deliveryId)]);
}

/** Big-endian, in as few octets as it takes. @throws RangeError */
function wholeNumberOctets(id: number): Buffer {
  if (!Number.isSafeInteger(id) || id < 0) throw new RangeError(`id out of range: ${id}`);
  const hex = id.toString(16);
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), "0"), "hex");
}

function bounceMac(key: KeyObject, payload: Uint8Array): Buffer {
  const digest = createHmac("sha256", key).update(payload).digest();
  return digest.subarray(0, BOUNCE_MAC_OCTETS);
}

function tokenMac(key: KeyObject, payload: Uint8Array): Buffer {
  const digest = createHmac("sha256", key).update(payload).digest();
  return digest.subarray(0, TOKEN_MAC_OCTETS);
}

/** RFC 4648 §6 in lower case, without padding. */
function toBase32(octets: Uint8Array): string {
  let text = "";
  let bits = 0;
  let bitCount = 0;
  for (const octet of octets) {
    bits = (bits << 8) | octet;
    bitCount += 8;
    while (bitCount >= 5) {
      bitCount -= 5;
      text += BASE32_ALPHABET[(bits >> bitCount) & 31];
    }
    bits &= (1 << bitCount) - 1;
  }
  return bitCount === 0 ? text : text + BASE32_ALPHABET[(bits << (5 - bitCount)) & 31];
}

/** @returns null when characters or bits are left over: one value has one spelling */
function fromBase32(text: string): Buffer | null {
  const octets: number[] = [];
  let bits = 0;
  let bitCount = 0;
  for (const character of text) {
    const value = BASE32_ALPHABET.indexOf(character);
    if (value < 0) return null;
    bits = (bits << 5) | value;
    bitCount += 5;
    if (bitCount >= 8) {
      bitCount -= 8;
      octets.push(bits >> bitCount);
    }
    bits &= (1 << bitCount) - 1;
  }
  return bits === 0 && bitCount < 5 ? Buffer.from(octets) : null;
}
