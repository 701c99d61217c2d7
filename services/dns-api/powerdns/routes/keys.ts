import { z } from "zod";
import { SIGNING_ALGORITHMS, type SigningAlgorithm } from "../../../core/dns/dnssec/algorithm.ts";
import { dnskeyOf } from "../../../core/dns/dnssec/apex-records.ts";
import { formatRdata } from "../../../core/dns/rdata/rdata.ts";
import { TYPE } from "../../../core/dns/rr-types.ts";
import { notFound, type Refusal, unacceptable } from "../../../core/refusal.ts";
import { ok, type Result, refuse } from "../../../core/result.ts";
import { showDs } from "../../../operations/dns/signing-json.ts";
import { findSignedZone, type SignedZone } from "../../../operations/dns/zone-signing-state.ts";
import { enableSigning } from "../../../operations/dns/zone-signing-switch.ts";
import type { DnsCaller } from "../../../store/dns/dns-callers.ts";
import { deleteToken, listTokenKeys } from "../../../store/dns/tokens.ts";
import { scopeOf } from "../../caller.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../../context.ts";
import { askParentBefore, changeSigningOf, stopSigning } from "../../signing-changes.ts";
import { zoneTarget } from "../../zone-target.ts";
import { NOTHING, zoneParam } from "../zone-json.ts";
import { noMeaning } from "../zone-settings.ts";

const keyParam = zoneParam.extend({ key_id: z.string() });

const keyJson = z.object({
  type: z.literal("Cryptokey"),
  id: z.int().meta({ description: "the key tag" }),
  keytype: z.enum(["ksk", "zsk", "csk"]),
  active: z.boolean(),
  published: z.boolean(),
  dnskey: z.string(),
  ds: z.array(z.string()),
  algorithm: z.string(),
  bits: z.int(),
  flags: z.int(),
});
type KeyJson = z.input<typeof keyJson>;

/** Names that programs give the algorithms beside their numbers. */
const ALGORITHMS: ReadonlyMap<string, SigningAlgorithm> = new Map([
  ["rsasha256", 8],
  ["8", 8],
  ["ecdsa256", 13],
  ["ecdsap256sha256", 13],
  ["13", 13],
  ["ed25519", 15],
  ["15", 15],
]);
const NAMES: Readonly<Record<SigningAlgorithm, string>> = { 8: "RSASHA256", 13: "ECDSAP256SHA256", 15: "ED25519" };
const BITS: Readonly<Record<SigningAlgorithm, number>> = { 8: 2048, 13: 256, 15: 256 };

/** The keys of zones, and TSIG keys. */
export const makePowerdnsKeyEndpoints: MakeEndpoints = (context) => [
  ...readingKeys(context),
  ...makingKeys(context),
  ...changingKeys(context),
  ...tsigKeys(context),
];

const readingKeys: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones/:zone_id/cryptokeys",
    summary: "The keys that a zone is signed with",
    params: zoneParam,
    reply: z.array(keyJson),
    act: ({ caller, params }) => listKeys(context, caller, params.zone_id),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones/:zone_id/cryptokeys/:key_id",
    summary: "One of them, its private half apart",
    params: keyParam,
    reply: keyJson,
    act: ({ caller, params: { zone_id, key_id } }) => findKey(context, caller, zone_id, key_id),
  }),
];

const makingKeys: MakeEndpoints = (context) => [
  dnsEndpoint("sign", {
    method: "POST",
    path: "/localhost/zones/:zone_id/cryptokeys",
    summary: "Sign a zone that is not signed, with a new key",
    params: zoneParam,
    fields: z.object({
      keytype: z.string().optional(),
      active: z.union([z.boolean(), z.string()]).optional(),
      published: z.union([z.boolean(), z.string()]).optional(),
      algorithm: z.union([z.int(), z.string()]).optional(),
      bits: z.union([z.int(), z.string()]).optional(),
      content: z.string().optional(),
      privatekey: z.string().optional(),
    }),
    reply: keyJson,
    replyStatus: 201,
    act: async ({ caller, params: { zone_id: domain }, fields }) => {
      if (fields.keytype !== undefined && !["ksk", "zsk", "csk"].includes(fields.keytype)) {
        return refuse(unacceptable("as-stated", { text: `Invalid keytype '${fields.keytype.slice(0, 40)}'` }));
      }
      if (fields.content ?? fields.privatekey)
        return refuse(noMeaning("content", "keys come in by /api/v1/dnssec/…/keys"));
      if (fields.keytype === "zsk") return refuse(noMeaning("keytype zsk", "a zone begins with a csk"));
      const isOff = [fields.active, fields.published].some((one) => one === false || one === "false");
      if (isOff) return refuse(noMeaning("a key that is not active and published", "keys are in use from the start"));
      const algorithm = ALGORITHMS.get(String(fields.algorithm ?? 13).toLowerCase());
      if (!algorithm) {
        const known = `${SIGNING_ALGORITHMS.map((one) => NAMES[one]).join(", ")}`;
        return refuse(unacceptable("as-stated", { text: `Unknown algorithm: use one of ${known}` }));
      }
      const wrongSize = checkBits(fields.bits, algorithm);
      if (wrongSize !== undefined) return refuse(unacceptable("as-stated", { text: wrongSize }));
      const before = await listKeys(context, caller, domain);
      if (!before.ok) return before;
      if (before.value.length > 0) return refuse(unacceptable("signed-already", { domain }));
      const signed = await changeSigningOf(context, caller, domain, (target) =>
        enableSigning(context.db, target, { algorithm, layout: "csk" }),
      );
      if (!signed.ok) return signed;
      return ok(showKeys(signed.value)[0]!);
    },
  }),
];

/** What is wrong with the size that a key is wanted in: keys of an algorithm have one size here. */
function checkBits(bits: number | string | undefined, algorithm: SigningAlgorithm): string | undefined {
  if (bits === undefined) return undefined;
  if (!/^[1-9]\d*$/.test(String(bits))) return "'bits' must be a positive integer value";
  if (Number(bits) === BITS[algorithm]) return undefined;
  return `The algorithm does not support the given bit size. Keys of ${NAMES[algorithm]} have ${BITS[algorithm]} bits here`;
}

const changingKeys: MakeEndpoints = (context) => [
  dnsEndpoint("sign", {
    method: "PUT",
    path: "/localhost/zones/:zone_id/cryptokeys/:key_id",
    summary: "Keys come into use and go by themselves: only what a key is already is taken",
    params: keyParam,
    fields: z.object({ active: z.boolean(), published: z.boolean().optional() }),
    ...NOTHING,
    act: async ({ caller, params: { zone_id, key_id }, fields }) => {
      const key = await findKey(context, caller, zone_id, key_id);
      if (!key.ok) return key;
      const isSo =
        key.value.active === fields.active && (fields.published ?? key.value.published) === key.value.published;
      return isSo ? ok(undefined) : refuse(noMeaning("active", "keys come into use by the DS of the parent"));
    },
  }),
  dnsEndpoint("sign", {
    method: "DELETE",
    path: "/localhost/zones/:zone_id/cryptokeys/:key_id",
    summary: "Stop signing, by the only key of a zone; refused while the parent has its DS",
    params: keyParam,
    ...NOTHING,
    act: async ({ caller, params: { zone_id: domain, key_id } }) => {
      const key = await findKey(context, caller, domain, key_id);
      if (!key.ok) return key;
      const all = await listKeys(context, caller, domain);
      if (all.ok && all.value.length > 1) return refuse(noMeaning("this", "a key of several goes by a rollover"));
      const lookUpDs = await askParentBefore(context, caller, domain);
      const stopped = await changeSigningOf(context, caller, domain, (target) =>
        stopSigning(context.db, target, lookUpDs),
      );
      return stopped.ok ? ok(undefined) : stopped;
    },
  }),
];

const tsigJson = z.object({ type: z.literal("TSIGKey"), id: z.string(), name: z.string(), algorithm: z.string() });

const tsigKeys: MakeEndpoints = ({ db }) => [
  dnsEndpoint("key", {
    method: "GET",
    path: "/localhost/tsigkeys",
    summary: "The TSIG keys of tokens, without their secrets, which are shown once",
    reply: z.array(tsigJson),
    act: async ({ caller }) => ok((await listTokenKeys(db, scopeOf(caller))).map(showTsig)),
  }),
  dnsEndpoint("key", {
    method: "GET",
    path: "/localhost/tsigkeys/:key_id",
    summary: "One of them",
    params: z.object({ key_id: z.string() }),
    reply: tsigJson,
    act: async ({ caller, params: { key_id } }) => {
      const name = key_id.replace(/\.$/, "");
      const [key] = await listTokenKeys(db, scopeOf(caller), name);
      return key ? ok(showTsig(key)) : refuse(noSuchKey(name));
    },
  }),
  dnsEndpoint("key", {
    method: "POST",
    path: "/localhost/tsigkeys",
    summary: "Refused: a TSIG key is made with the token whose policy it is held to",
    fields: z.looseObject({}),
    reply: tsigJson,
    act: async () => refuse(noMeaning("a TSIG key by itself", "make a token with one: POST /api/v1/token")),
  }),
  dnsEndpoint("key", {
    method: "DELETE",
    path: "/localhost/tsigkeys/:key_id",
    summary: "Take a TSIG key away, and its token with it where that is good for nothing else",
    params: z.object({ key_id: z.string() }),
    ...NOTHING,
    act: async ({ caller, params: { key_id } }) => {
      const name = key_id.replace(/\.$/, "");
      const [key] = await listTokenKeys(db, scopeOf(caller), name);
      if (!key) return refuse(noSuchKey(name));
      if (key.hasSecret)
        return refuse(noMeaning("this", `the key goes with its token: DELETE /api/v1/token/${key.tokenName}`));
      await deleteToken(db, key.tokenId);
      return ok(undefined);
    },
  }),
];

function showTsig({
  name,
  algorithm,
}: {
  readonly name: string;
  readonly algorithm: string;
}): z.input<typeof tsigJson> {
  return { type: "TSIGKey", id: `${name}.`, name, algorithm };
}

function noSuchKey(name: string): Refusal {
  return notFound("as-stated", { text: `TSIG key with name '${name}' not found` });
}

async function listKeys({ db }: DnsApiContext, caller: DnsCaller, domain: string): Promise<Result<KeyJson[], Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const found = await findSignedZone(db, target.value);
  return found.ok ? ok(showKeys(found.value)) : found;
}

async function findKey(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  keyId: string,
): Promise<Result<KeyJson, Refusal>> {
  const keys = await listKeys(context, caller, domain);
  if (!keys.ok) return keys;
  const key = keys.value.find(({ id }) => String(id) === keyId);
  return key ? ok(key) : refuse(notFound("no-such-key", { domain, tag: keyId.slice(0, 40) }));
}

function showKeys({ zone, state }: SignedZone): KeyJson[] {
  return (state?.keys ?? []).map((key) => {
    const dnskey = dnskeyOf(key);
    const algorithm = key.algorithm as SigningAlgorithm;
    return {
      ...{ type: "Cryptokey", id: key.keyTag, keytype: key.role, active: key.signsZone || key.signsKeySet },
      published: key.isPublished,
      dnskey: formatRdata(TYPE.DNSKEY, dnskey),
      ds: showDs(zone.apex, key, state!.keys),
      ...{ algorithm: NAMES[algorithm], bits: BITS[algorithm], flags: (dnskey[0]! << 8) | dnskey[1]! },
    };
  });
}
