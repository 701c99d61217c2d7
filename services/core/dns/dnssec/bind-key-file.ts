import type { KeyObject } from "node:crypto";
import { type Refusal, unacceptable } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { sentence } from "../../sentences.ts";
import { type DomainName, formatDomainName } from "../name.ts";
import { formatBase64 } from "../rdata/encoded-fields.ts";
import { formatRdata } from "../rdata/rdata.ts";
import { TYPE } from "../rr-types.ts";
import { parseZoneFile } from "../zone-file/zone-file.ts";
import {
  algorithmMnemonic,
  fromBase64Url,
  isSigningAlgorithm,
  publicKeyOctets,
  type SigningAlgorithm,
} from "./algorithm.ts";
import { DNSSEC_PROTOCOL, dnskeyRdata, isZoneKey, type KeyRole, keyTag, readDnskey } from "./dnskey.ts";
import { type KeyProblem, PRIVATE_FIELDS, readPrivateKey } from "./private-key.ts";

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

/**
 * Reads a key pair in BIND's format. Refuses files of another zone or algorithm, a key that is no zone's or revoked,
 * numbers that are no key, and halves of different pairs.
 */
export async function parseBindKey(
  apex: DomainName,
  files: Pick<BindKeyFiles, "keyText" | "privateText">,
): Promise<Result<BindKey, Refusal>> {
  const parsed = parseZoneFile(files.keyText, { origin: apex, defaultTtlSeconds: 0 });
  if (!parsed.ok) {
    const reason = sentence("line", { line: parsed.error.line, reason: parsed.error });
    return refuse(unacceptable("key-file", { file: ".key", reason }));
  }
  const record = parsed.value.records.find(({ type, owner }) => type === TYPE.DNSKEY && owner.key === apex.key);
  if (!record) return refuse(unacceptable("key-file-of-another-zone", { domain: formatDomainName(apex) }));
  const { flags, protocol, algorithm, isEntryPoint, isRevoked, publicKey } = readDnskey(record.rdata);
  if (isRevoked) return refuse(unacceptable("key-revoked", { tag: keyTag(record.rdata), flags }));
  if (!isZoneKey(flags) || protocol !== DNSSEC_PROTOCOL) {
    return refuse(unacceptable("key-file", { file: ".key", reason: sentence("key-flags", { flags, protocol }) }));
  }
  if (!isSigningAlgorithm(algorithm)) return refuse(unacceptable("signing-algorithm", { algorithm }));
  const fields = readFields(files.privateText);
  const stated = Number.parseInt(fields.get("algorithm") ?? "", 10);
  if (stated !== algorithm) return refuse(unacceptable("key-files-of-two-algorithms"));
  const privateKey = await readPrivateKey(algorithm, publicKey, fields);
  if (!privateKey.ok) return refuse(sayProblem(privateKey.error));
  return ok({ algorithm, isEntryPoint, privateKey: privateKey.value, publicKey: new Uint8Array(publicKey) });
}

function sayProblem({ half, reason }: KeyProblem): Refusal {
  if (reason === undefined) return unacceptable("key-files-unlike");
  return unacceptable("key-file", { file: half === "public" ? ".key" : ".private", reason });
}

function readFields(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  return fields;
}
