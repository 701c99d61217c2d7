import { z } from "zod";
import { dnskeyOf } from "../../core/dns/dnssec/apex-records.ts";
import { DENIALS } from "../../core/dns/dnssec/denial.ts";
import { dsRdata, KEY_ROLES } from "../../core/dns/dnssec/dnskey.ts";
import { KEY_STATES, keysWithDs } from "../../core/dns/dnssec/rollover.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { formatRdata } from "../../core/dns/rdata/rdata.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { StoredKey } from "../../store/dns/dnssec-keys.ts";
import type { SignedZone } from "./zone-signing-state.ts";
import { isNotSigned } from "./zone-signing-switch.ts";

/** Whether a zone is signed, and by which keys. */
export const signingReply = z.object({
  domain: z.string(),
  enabled: z.boolean(),
  denial: z.enum(DENIALS),
  keys: z.array(
    z.object({
      key_tag: z.int(),
      role: z.enum(KEY_ROLES),
      algorithm: z.int(),
      state: z.enum(KEY_STATES),
      ds: z.array(z.string()).meta({ description: "data of the DS for the parent; none where it is not to have one" }),
    }),
  ),
});

/** The times of its keys, and what is known of its parent. */
export const detailsReply = z.object({
  domain: z.string(),
  ds_wanted: z.boolean(),
  ds_automatic: z.boolean(),
  parent: z.object({
    ds: z.array(z.string()).nullable(),
    authenticated: z.boolean().nullable(),
    checked: z.string().nullable(),
  }),
  keys: z.array(
    z.object({
      key_tag: z.int(),
      created: z.string(),
      since: z.string(),
      until: z.string().nullable(),
      ds_seen: z.boolean(),
    }),
  ),
});

/** A zone's signing as {@link signingReply} has it. */
export function showSigning({ zone, state }: SignedZone): z.input<typeof signingReply> {
  return {
    domain: zone.name,
    enabled: state !== undefined,
    denial: state?.denial ?? "nsec",
    keys: (state?.keys ?? []).map((key) => ({
      key_tag: key.keyTag,
      role: key.role,
      algorithm: key.algorithm,
      state: key.state,
      ds: showDs(zone.apex, key, state!.keys),
    })),
  };
}

/** The data of a key's DS, where the parent is to have it. @param keys all of the zone's */
export function showDs(apex: DomainName, key: StoredKey, keys: readonly StoredKey[]): string[] {
  return keysWithDs(keys).includes(key) ? [formatRdata(TYPE.DS, dsRdata(apex, dnskeyOf(key)))] : [];
}

/** A signed zone as {@link detailsReply} has it. Refuses one that is not signed. */
export function showDetails({ zone, state }: SignedZone): Result<z.input<typeof detailsReply>, Refusal> {
  if (!state) return refuse(isNotSigned(zone.name));
  const { dsWanted, dsAutomatic, parent, keys } = state;
  return ok({
    domain: zone.name,
    ds_wanted: dsWanted,
    ds_automatic: dsAutomatic,
    parent: {
      ds: parent.ds?.map((rdata) => formatRdata(TYPE.DS, rdata)) ?? null,
      authenticated: parent.authenticated,
      checked: parent.checkedAt?.toISOString() ?? null,
    },
    keys: keys.map(({ keyTag, createdAt, since, due, hasDs }) => ({
      key_tag: keyTag,
      created: createdAt.toISOString(),
      since: since.toISOString(),
      until: due?.toISOString() ?? null,
      ds_seen: hasDs,
    })),
  });
}
