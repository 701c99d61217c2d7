/** DKIM signatures (RFC 6376), RSA and optionally Ed25519 beside it (RFC 8463), relaxed/relaxed. */
import { createHash, createPublicKey, generateKeyPair, type KeyObject, sign as signSync } from "node:crypto";
import { promisify } from "node:util";
import { fieldValue, type RawField, splitMessage } from "./message.ts";

/** A private key and the name under which its public half is published: `<selector>._domainkey.<domain>`. */
export interface DkimKey {
  /** Signing domain as A-labels; aligned with the From domain for DMARC. */
  readonly domain: string;
  readonly selector: string;
  /** RSA or Ed25519. */
  readonly privateKey: KeyObject;
}

const RSA_BITS = 2048;
const SIGNATURE_LINE_CHARACTERS = 72;

/**
 * Fields that a signature covers, each once more often than it occurs, so that none can be added afterwards
 * (RFC 6376 §8.15). RFC 8058 §4 wants both List-Unsubscribe fields among them.
 */
const SIGNED_FIELDS = [
  "from sender reply-to to cc subject date message-id in-reply-to references mime-version content-type",
  "content-transfer-encoding list-id list-unsubscribe list-unsubscribe-post",
].flatMap((line) => line.split(" "));

/** Fields that are covered in the same way where a message has them: RFC 9477 §3.1 wants CFBL-Address signed. */
const SIGNED_WHERE_PRESENT = ["feedback-id", "cfbl-address"];

const signInPool = promisify(signSync);
const generateKeyPairInPool = promisify(generateKeyPair);

/** Signs messages of one domain. Keep it: the keys are parsed once. */
export class DkimSigner {
  readonly #keys: readonly DkimKey[];

  /** @param keys one signature each, in this order; usually RSA alone, or RSA and Ed25519 */
  constructor(keys: readonly DkimKey[]) {
    this.#keys = keys;
  }

  /**
   * Signature fields for a message, to be put before it.
   * @param message the final octets, with CRLF line breaks: nothing may alter them afterwards
   * @param signedAt the time that the signature states
   */
  sign(message: Buffer, signedAt: Date): Buffer {
    const drafts = this.#draft(message, signedAt);
    return finish(
      drafts,
      drafts.map(({ algorithm, data, privateKey }) => signSync(algorithm, data, privateKey)),
    );
  }

  /** As `sign`, the public-key arithmetic on the thread pool, so that other processors share it. */
  async signInPool(message: Buffer, signedAt: Date): Promise<Buffer> {
    const drafts = this.#draft(message, signedAt);
    return finish(
      drafts,
      await Promise.all(drafts.map(({ algorithm, data, privateKey }) => signInPool(algorithm, data, privateKey))),
    );
  }

  #draft(message: Buffer, signedAt: Date): SignatureDraft[] {
    const { fields, body } = splitMessage(message);
    const signed = selectFields(fields);
    const bodyHash = createHash("sha256").update(relaxBody(body)).digest("base64");
    return this.#keys.map((key) => draftSignature(key, signed, bodyHash, signedAt));
  }
}

/**
 * Value of the TXT record that publishes a key (RFC 6376 §3.6.1, RFC 8463 §3).
 * It is longer than 255 octets for RSA: a zone file splits it into several strings.
 */
export function dkimRecord(publicKey: KeyObject): string {
  if (publicKey.asymmetricKeyType === "ed25519") {
    // RFC 8463 §4: the bare 32 octets, which are the last of the SubjectPublicKeyInfo.
    const octets = publicKey.export({ type: "spki", format: "der" }).subarray(-32);
    return `v=DKIM1; k=ed25519; p=${octets.toString("base64")}`;
  }
  return `v=DKIM1; k=rsa; p=${publicKey.export({ type: "spki", format: "der" }).toString("base64")}`;
}

/** A key pair that was made for a domain. */
export interface NewDkimKey {
  /** PKCS #8, to be sealed before it is stored. */
  readonly privateKeyPem: string;
  /** Value of the TXT record that publishes it. */
  readonly record: string;
}

/** Make a key pair. An RSA key takes a quarter of a second of processor time. */
export async function generateDkimKey(type: "rsa" | "ed25519"): Promise<NewDkimKey> {
  const { privateKey } =
    type === "rsa"
      ? await generateKeyPairInPool("rsa", { modulusLength: RSA_BITS })
      : await generateKeyPairInPool("ed25519");
  return {
    privateKeyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    record: dkimRecord(createPublicKey(privateKey)),
  };
}

/** A signature field up to its `b=`, and what is to be signed. */
interface SignatureDraft {
  readonly field: string;
  readonly algorithm: "sha256" | null;
  readonly data: Buffer;
  readonly privateKey: KeyObject;
}

/** The `h=` list, and the canonical form of the fields that it names. */
interface SignedFields {
  readonly names: readonly string[];
  readonly canonical: string;
}

function draftSignature(key: DkimKey, signed: SignedFields, bodyHash: string, signedAt: Date): SignatureDraft {
  const isEd25519 = key.privateKey.asymmetricKeyType === "ed25519";
  const seconds = Math.floor(signedAt.getTime() / 1000);
  const field =
    `DKIM-Signature: v=1; a=${isEd25519 ? "ed25519" : "rsa"}-sha256; c=relaxed/relaxed;\r\n` +
    ` d=${key.domain}; s=${key.selector}; t=${seconds};\r\n` +
    ` h=${foldNames(signed.names)};\r\n bh=${bodyHash};\r\n b=`;
  const data = Buffer.from(signed.canonical + relaxField({ name: "dkim-signature", raw: field }), "latin1");
  return isEd25519
    ? { field, algorithm: null, data: createHash("sha256").update(data).digest(), privateKey: key.privateKey } // RFC 8463 §3
    : { field, algorithm: "sha256", data, privateKey: key.privateKey };
}

function finish(drafts: readonly SignatureDraft[], signatures: readonly Buffer[]): Buffer {
  const text = drafts.map(({ field }, i) => `${field}${foldBase64(signatures[i] as Buffer)}\r\n`).join("");
  return Buffer.from(text, "latin1");
}

/** RFC 6376 §5.4.2: of several fields of one name the last is signed first. */
function selectFields(fields: readonly RawField[]): SignedFields {
  const byName = new Map<string, RawField[]>();
  for (const field of fields) {
    const same = byName.get(field.name);
    if (same === undefined) byName.set(field.name, [field]);
    else same.push(field);
  }
  const names: string[] = [];
  let canonical = "";
  for (const name of [...SIGNED_FIELDS, ...SIGNED_WHERE_PRESENT.filter((name) => byName.has(name))]) {
    for (const field of byName.get(name)?.toReversed() ?? []) {
      names.push(name);
      canonical += `${relaxField(field)}\r\n`;
    }
    names.push(name);
  }
  return { names, canonical };
}

/** RFC 6376 §3.4.2, without the final CRLF. */
function relaxField(field: RawField): string {
  return `${field.name}:${fieldValue(field).replace(/[ \t]+/g, " ")}`;
}

/**
 * Relaxed form of a body: runs of white space become one space, none ends a line, no empty lines end the body.
 * Every step is linear in the body's length, whatever the body.
 * @see RFC 6376 §3.4.4
 */
export function relaxBody(body: Buffer): Buffer {
  const squeezed = UNRELAXED.some((octets) => body.includes(octets)) ? squeeze(body) : body;
  let end = squeezed.at(-1) === SPACE ? squeezed.length - 1 : squeezed.length;
  while (end >= 2 && squeezed[end - 1] === LF && squeezed[end - 2] === CR) end -= 2;
  if (end === 0) return squeezed.subarray(0, 0);
  const isEnded = squeezed[end] === CR && squeezed[end + 1] === LF;
  return isEnded ? squeezed.subarray(0, end + 2) : Buffer.concat([squeezed.subarray(0, end), CRLF]);
}

const SPACE = 0x20;
const TAB = 0x09;
const CR = 0x0d;
const LF = 0x0a;
const CRLF = Buffer.from("\r\n", "latin1");
/** White space that is no single space within a line. Most bodies have none, and are looked at without being copied. */
const UNRELAXED = ["  ", "\t", " \r\n"].map((octets) => Buffer.from(octets, "latin1"));

function squeeze(body: Buffer): Buffer {
  const squeezed = Buffer.allocUnsafe(body.length);
  let length = 0;
  for (let i = 0; i < body.length; i++) {
    const octet = body[i] as number;
    const isSpace = octet === SPACE || octet === TAB;
    if (isSpace && length > 0 && squeezed[length - 1] === SPACE) continue;
    if (octet === CR && body[i + 1] === LF && length > 0 && squeezed[length - 1] === SPACE) length--;
    squeezed[length++] = isSpace ? SPACE : octet;
  }
  return squeezed.subarray(0, length);
}

function foldNames(names: readonly string[]): string {
  let folded = "";
  let lineLength = 0;
  for (const [index, name] of names.entries()) {
    const token = index < names.length - 1 ? `${name}:` : name;
    if (lineLength + token.length > SIGNATURE_LINE_CHARACTERS) {
      folded += "\r\n  ";
      lineLength = 0;
    }
    folded += token;
    lineLength += token.length;
  }
  return folded;
}

function foldBase64(signature: Buffer): string {
  const encoded = signature.toString("base64");
  const lines: string[] = [];
  for (let i = 0; i < encoded.length; i += SIGNATURE_LINE_CHARACTERS) {
    lines.push(encoded.slice(i, i + SIGNATURE_LINE_CHARACTERS));
  }
  return lines.join("\r\n  ");
}
