import { createPrivateKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { type Refusal, unacceptable } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { type DomainName, formatDomainName } from "../name.ts";
import { formatBase64, parseBase64 } from "../rdata/encoded-fields.ts";
import { formatRdata } from "../rdata/rdata.ts";
import { TYPE } from "../rr-types.ts";
import { parseZoneFile } from "../zone-file.ts";
import {
  algorithmMnemonic,
  fromBase64Url,
  isKeyPair,
  isSigningAlgorithm,
  publicKeyFrom,
  publicKeyOctets,
  type SigningAlgorithm,
  toBase64Url,
} from "./algorithm.ts";
import { dnskeyRdata, type KeyRole, keyTag, readDnskey } from "./dnskey.ts";

/** A key pair as BIND's tools keep it: `K<zone>+<algorithm>+<key tag>.key` and `….private`. */
export interface BindKeyFiles {
  /** Without `.key` and `.private`. */
  readonly name: string;
  readonly keyText: string;
  readonly privateText: string;
}

/** A key pair out of such files. */
export interface BindKey {
  readonly algorithm: SigningAlgorithm;
  /** Whether its SEP bit is set: a KSK, or a combined key. */
  readonly isEntryPoint: boolean;
  readonly privateKey: KeyObject;
  readonly publicKey: Uint8Array;
}

/** How a key is used, for BIND's tools: `dnssec-signzone -S` passes over one that is not published or does not sign. */
export interface BindKeyUse {
  readonly created: Date;
  readonly isPublished: boolean;
  readonly signs: boolean;
}

/** Writes a key pair in BIND's format, version 1.3. */
export function formatBindKey(
  apex: DomainName,
  key: { readonly role: KeyRole; readonly algorithm: SigningAlgorithm; readonly privateKey: KeyObject },
  { created, isPublished, signs }: BindKeyUse,
): BindKeyFiles {
  const rdata = dnskeyRdata(key.role, key.algorithm, publicKeyOctets(key.algorithm, key.privateKey));
  const tag = keyTag(rdata);
  const zone = formatDomainName(apex).toLowerCase();
  const kind = key.role === "zsk" ? "zone-signing" : "key-signing";
  const timestamp = created.toISOString().replace(/\D/g, "").slice(0, 14);
  const jwk = key.privateKey.export({ format: "jwk" });
  const fields = PRIVATE_FIELDS[key.algorithm].map(
    ([label, parameter]) => `${label}: ${formatBase64(fromBase64Url(jwk[parameter] as string))}`,
  );
  return {
    name: `K${zone}+${String(key.algorithm).padStart(3, "0")}+${String(tag).padStart(5, "0")}`,
    keyText: `; This is a ${kind} key, keyid ${tag}, for ${zone}\n${zone} IN DNSKEY ${formatRdata(TYPE.DNSKEY, rdata)}\n`,
    privateText: `${[
      "Private-key-format: v1.3",
      `Algorithm: ${key.algorithm} (${algorithmMnemonic(key.algorithm)})`,
      ...fields,
      `Created: ${timestamp}`,
      ...(isPublished ? [`Publish: ${timestamp}`] : []),
      ...(signs ? [`Activate: ${timestamp}`] : []),
    ].join("\n")}\n`,
  };
}

/** Reads a key pair in BIND's format. Refuses files of another zone or algorithm, and halves of different pairs. */
export function parseBindKey(
  apex: DomainName,
  files: Pick<BindKeyFiles, "keyText" | "privateText">,
): Result<BindKey, Refusal> {
  const parsed = parseZoneFile(files.keyText, { origin: apex, defaultTtlSeconds: 0 });
  if (!parsed.ok) return refuse(unacceptable(`the .key file: line ${parsed.error.line}: ${parsed.error.message}`));
  const record = parsed.value.records.find(({ type, owner }) => type === TYPE.DNSKEY && owner.key === apex.key);
  if (!record) return refuse(unacceptable(`the .key file has no DNSKEY of ${formatDomainName(apex)}`));
  const { algorithm, isEntryPoint, publicKey } = readDnskey(record.rdata);
  if (!isSigningAlgorithm(algorithm)) return refuse(unacceptable(`algorithm ${algorithm} is not one of 8, 13 and 15`));
  const fields = readFields(files.privateText);
  const stated = Number.parseInt(fields.get("algorithm") ?? "", 10);
  if (stated !== algorithm) return refuse(unacceptable("the .private file is of another algorithm than the .key file"));
  const published = publicKeyFrom(algorithm, publicKey);
  if (!published) return refuse(unacceptable("the .key file does not hold a public key of its algorithm"));
  const privateKey = makePrivateKey(algorithm, published, fields);
  if (!privateKey) return refuse(unacceptable("the .private file does not hold a whole private key"));
  if (!isKeyPair(algorithm, privateKey, published)) {
    return refuse(unacceptable("the .private file does not go with the .key file"));
  }
  return ok({ algorithm, isEntryPoint, privateKey, publicKey: new Uint8Array(publicKey) });
}

/** Fields of the private file, and the parameters of a JSON Web Key (RFC 7518 §6) that they are. */
const PRIVATE_FIELDS: { readonly [algorithm in SigningAlgorithm]: readonly (readonly [string, keyof JsonWebKey])[] } = {
  8: [
    ["Modulus", "n"],
    ["PublicExponent", "e"],
    ["PrivateExponent", "d"],
    ["Prime1", "p"],
    ["Prime2", "q"],
    ["Exponent1", "dp"],
    ["Exponent2", "dq"],
    ["Coefficient", "qi"],
  ],
  13: [["PrivateKey", "d"]],
  15: [["PrivateKey", "d"]],
};

function readFields(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  return fields;
}

/** The private file of an elliptic curve holds no public key, and a JSON Web Key must: hence that of the other file. */
function makePrivateKey(
  algorithm: SigningAlgorithm,
  publicKey: KeyObject,
  fields: ReadonlyMap<string, string>,
): KeyObject | undefined {
  const jwk = publicKey.export({ format: "jwk" });
  for (const [label, parameter] of PRIVATE_FIELDS[algorithm]) {
    const octets = parseBase64(fields.get(label.toLowerCase()) ?? "");
    if (!octets?.length) return undefined;
    jwk[parameter] = toBase64Url(octets);
  }
  try {
    return createPrivateKey({ key: jwk, format: "jwk" });
  } catch {
    return undefined; // numbers that are no key
  }
}
