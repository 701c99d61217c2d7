import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { SIGNING_ALGORITHMS } from "../../core/dns/dnssec/algorithm.ts";
import { type BindKey, parseBindKey } from "../../core/dns/dnssec/bind-key-file.ts";
import { DENIALS } from "../../core/dns/dnssec/denial.ts";
import { KEY_ROLES } from "../../core/dns/dnssec/dnskey.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import {
  checkParentDs,
  confirmDsGone,
  confirmDsSeen,
  setDsAutomatic,
  wishForDs,
} from "../../operations/dns/dnssec-parent.ts";
import { detailsReply, showDetails, showSigning, signingReply } from "../../operations/dns/signing-json.ts";
import { exportKey, importKeys } from "../../operations/dns/zone-signing-keys.ts";
import { findSignedZone, type SignedZone, type SigningTarget } from "../../operations/dns/zone-signing-state.ts";
import {
  enableSigning,
  KEY_LAYOUTS,
  rollOverAlgorithm,
  rollOverRole,
} from "../../operations/dns/zone-signing-switch.ts";
import { signingWarnings, warnOfParent } from "../../operations/dns/zone-signing-warnings.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { scopeOf } from "../caller.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { domainParam, warnings, withWarnings } from "../schemas.ts";
import { askParentBefore, changeSigningOf, stopSigning, withParent } from "../signing-changes.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";

const algorithm = z.union(
  SIGNING_ALGORITHMS.map((number) => z.literal(number)),
  "one-of",
);
const role = z.enum(KEY_ROLES, "one-of");
const keyLayout = z.enum(KEY_LAYOUTS, "one-of");

const MOST_KEY_CHARACTERS = 20_000;

/** A key pair as BIND's tools keep it: the texts of `K….key` and `K….private`. */
const keyFiles = z.object({
  key: z.string("key-text-form").max(MOST_KEY_CHARACTERS, "too-long"),
  private: z.string("private-text-form").max(MOST_KEY_CHARACTERS, "too-long"),
});

const OF_PARENT =
  "that the zone has no NS records in the signed zone above, where that is yours and hosted here as well";

const warnedReply = signingReply.extend({
  warnings: warnings.meta({
    description: `what validators refuse: NS at wildcards; ${OF_PARENT}; the same of your zones below, of which the first 1,000 are looked at`,
  }),
});

/** How zones are signed. */
export const makeDnssecEndpoints: MakeEndpoints = (context) => [
  ...state(context),
  ...keyChanges(context),
  ...parentDs(context),
  ...keysInAndOut(context),
];

/** Whether and with what a zone is signed. */
const state: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/dnssec/:domain",
    summary: "Whether the zone is signed, its keys, and the DS for its parent",
    params: domainParam,
    reply: signingReply,
    act: async ({ caller, params: { domain } }) => {
      const found = await find(context, caller, domain);
      return found.ok ? ok(showSigning(found.value)) : found;
    },
  }),
  dnsEndpoint("sign", {
    method: "PUT",
    path: "/dnssec/:domain",
    summary: "Sign a zone, change how it is signed, or stop; stopping is refused while the parent has a DS",
    params: domainParam,
    fields: z.object({
      enabled: z.boolean("one-of"),
      denial: z.enum(DENIALS, "one-of").optional(),
      algorithm: algorithm.optional(),
      keys: keyLayout.optional(),
    }),
    reply: warnedReply,
    act: async ({ caller, params: { domain }, fields, headers }) => {
      const change = (run: Parameters<typeof changeAndWarn>[2]) =>
        changeAndWarn(context, { caller, domain, headers }, run);
      if (fields.enabled) {
        return change((target) =>
          enableSigning(context.db, target, { ...fields, layout: fields.keys, keys: undefined }),
        );
      }
      const lookUpDs = await askParentBefore(context, caller, domain);
      return change((target) => stopSigning(context.db, target, lookUpDs));
    },
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/dnssec/:domain/details",
    summary: "The times of the zone's keys, and what its parent was last seen with",
    params: domainParam,
    reply: detailsReply,
    act: async ({ caller, params: { domain } }) => {
      const found = await find(context, caller, domain);
      return found.ok ? showDetails(found.value) : found;
    },
  }),
];

/** Keys that come into use and replace others. */
const keyChanges: MakeEndpoints = (context) => [
  dnsEndpoint("sign", {
    method: "POST",
    path: "/dnssec/:domain/check",
    summary: "Ask the parent now which DS it has; keys whose DS is there come into use",
    params: domainParam,
    reply: detailsReply.extend({ warnings: warnings.meta({ description: OF_PARENT }) }),
    act: async ({ caller, params: { domain }, headers }) => {
      const lookUpDs = await askParentBefore(context, caller, domain);
      const checked = await changeAndAnnounce(context, caller, domain, (target) =>
        withParent(context, target, () => checkParentDs(context.db, target, lookUpDs)),
      );
      const details = checked.ok ? showDetails(checked.value) : checked;
      if (!checked.ok || !details.ok) return details;
      const found = await warnOfParent(context.db, checked.value.zone.apex, {
        scope: scopeOf(caller),
        token: caller.token,
      });
      return ok({ ...details.value, ...withWarnings(found, headers) });
    },
  }),
  dnsEndpoint("sign", {
    method: "POST",
    path: "/dnssec/:domain/rollover",
    summary: "Replace the keys of a role, or all of them by those of another algorithm",
    params: domainParam,
    fields: z
      .object({
        role: role.optional(),
        algorithm: algorithm.optional(),
        keys: keyLayout.optional().meta({ description: "beside `algorithm`, where not that of the keys there are" }),
      })
      .refine((given) => given.role !== undefined || given.algorithm !== undefined, { path: ["role"] })
      .meta({ anyOf: [{ required: ["role"] }, { required: ["algorithm"] }] }),
    reply: signingReply,
    act: ({ caller, params: { domain }, fields }) =>
      changeSigning(context, caller, domain, async (target) => {
        const { role, algorithm, keys: layout } = fields;
        if (algorithm !== undefined) return rollOverAlgorithm(context.db, target, { algorithm, layout });
        return rollOverRole(context.db, target, role!);
      }),
  }),
];

/** The DS at the parent. */
const parentDs: MakeEndpoints = (context) => [
  dnsEndpoint("sign", {
    method: "POST",
    path: "/dnssec/:domain/ds_seen",
    summary: "Your word that the parent has the DS of a key",
    params: domainParam,
    fields: z.object({ key_tag: z.int().min(0).max(65_535) }),
    reply: signingReply,
    act: ({ caller, params: { domain }, fields }) =>
      changeSigning(context, caller, domain, (target) => confirmDsSeen(context.db, target, fields.key_tag)),
  }),
  dnsEndpoint("sign", {
    method: "POST",
    path: "/dnssec/:domain/ds_gone",
    summary: "Your word that the parent has no DS any more",
    params: domainParam,
    reply: signingReply,
    act: ({ caller, params: { domain } }) =>
      changeSigning(context, caller, domain, (target) => confirmDsGone(context.db, target)),
  }),
  dnsEndpoint("sign", {
    method: "PUT",
    path: "/dnssec/:domain/ds_wanted",
    summary: "Whether CDS and CDNSKEY tell the parent to have the zone's DS, or to remove it (RFC 8078)",
    params: domainParam,
    fields: z.object({ wanted: z.boolean("one-of") }),
    reply: signingReply,
    act: ({ caller, params: { domain }, fields }) =>
      changeSigning(context, caller, domain, (target) => wishForDs(context.db, target, fields.wanted)),
  }),
  dnsEndpoint("sign", {
    method: "PUT",
    path: "/dnssec/:domain/ds_automatic",
    summary: "Whether the DS in a parent zone of yours that is hosted here follows CDS by itself",
    params: domainParam,
    fields: z.object({ automatic: z.boolean("one-of") }),
    reply: signingReply,
    act: ({ caller, params: { domain }, fields }) =>
      changeSigning(context, caller, domain, (target) => setDsAutomatic(context.db, target, fields.automatic)),
  }),
];

const keysInAndOut: MakeEndpoints = (context) => [
  dnsEndpoint("sign", {
    method: "POST",
    path: "/dnssec/:domain/keys",
    summary: "Sign a zone with keys that it has elsewhere, or bring keys into a signed zone as a rollover does",
    params: domainParam,
    fields: z.object({ keys: z.array(keyFiles).min(1, "one-key-or-more").max(2, "two-keys-at-most") }),
    reply: warnedReply,
    act: ({ caller, params: { domain }, fields, headers }) =>
      changeAndWarn(context, { caller, domain, headers }, (target) => importFiles(context, target, fields.keys)),
  }),
  dnsEndpoint("key", {
    method: "POST",
    path: "/dnssec/:domain/keys/:key_tag/export",
    summary: "A key pair of a signed zone in BIND's format, its private half included",
    params: domainParam.extend({
      key_tag: z
        .string()
        .regex(/^\d{1,5}$/, "key-tag-form")
        .transform(Number),
    }),
    reply: z.object({ name: z.string(), key: z.string(), private: z.string() }),
    act: async ({ caller, params: { domain, key_tag } }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const { keyRing, clock } = context;
      const files = await exportKey(context.db, { ...target.value, signer: { keyRing, clock } }, key_tag);
      if (!files.ok) return files;
      const { name, keyText, privateText } = files.value;
      return ok({ name, key: keyText, private: privateText });
    },
  }),
];

async function importFiles(
  { db }: DnsApiContext,
  target: SigningTarget,
  files: readonly z.output<typeof keyFiles>[],
): Promise<Result<SignedZone, Refusal>> {
  const keys: BindKey[] = [];
  for (const { key, private: privateText } of files) {
    const parsed = await parseBindKey(target.apex, { keyText: key, privateText });
    if (!parsed.ok) return parsed;
    keys.push(parsed.value);
  }
  return importKeys(db, target, keys);
}

async function find(context: DnsApiContext, caller: DnsCaller, domain: string): Promise<Result<SignedZone, Refusal>> {
  const target = zoneTarget(caller, domain);
  return target.ok ? findSignedZone(context.db, target.value) : target;
}

/** Changes how a zone is signed, and says what validators refuse of it then. */
async function changeAndWarn(
  context: DnsApiContext,
  { caller, domain, headers }: { caller: DnsCaller; domain: string; headers: IncomingHttpHeaders },
  run: (target: SigningTarget) => Promise<Result<SignedZone, Refusal>>,
) {
  const changed = await changeSigningOf(context, caller, domain, run);
  if (!changed.ok) return changed;
  const { zone, state } = changed.value;
  const asked = { scope: scopeOf(caller), token: caller.token };
  const found = state ? await signingWarnings(context.db, zone, asked) : [];
  return ok({ ...showSigning(changed.value), ...withWarnings(found, headers) });
}

async function changeSigning(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  run: (target: SigningTarget) => Promise<Result<SignedZone, Refusal>>,
) {
  const changed = await changeSigningOf(context, caller, domain, run);
  return changed.ok ? ok(showSigning(changed.value)) : changed;
}
