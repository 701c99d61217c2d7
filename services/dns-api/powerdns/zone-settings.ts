import { z } from "zod";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { sentence } from "../../core/sentences.ts";
import { NSEC3PARAM } from "./zone-json.ts";

/** What programs may say of a zone beside its records. */
export const settingsFields = z.object({
  kind: z.string().optional(),
  account: z.string().nullable().optional(),
  masters: z.array(z.string()).nullable().optional(),
  catalog: z.string().nullable().optional(),
  soa_edit: z.string().nullable().optional(),
  soa_edit_api: z.string().nullable().optional(),
  api_rectify: z.boolean().nullable().optional(),
  dnssec: z.boolean().nullable().optional(),
  nsec3param: z.string().nullable().optional(),
  nsec3narrow: z.boolean().nullable().optional(),
  presigned: z.boolean().nullable().optional(),
  master_tsig_key_ids: z.array(z.string()).nullable().optional(),
  slave_tsig_key_ids: z.array(z.string()).nullable().optional(),
});
export type SettingsFields = z.output<typeof settingsFields>;

/** Of it what has a meaning here; undefined stays as it is. */
export interface Settings {
  readonly kind: string | undefined;
  readonly soaEditApi: string | undefined;
  readonly serialType: "numeric" | "calendar" | undefined;
  readonly dnssec: boolean | undefined;
  readonly denial: "nsec" | "nsec3" | undefined;
}

const KINDS = ["Native", "Master", "Primary"] as const;

/** How serials go on: by one, or by the day. Empty: as the zone does. */
const SOA_EDIT_API: Readonly<Record<string, "numeric" | "calendar" | undefined>> = {
  "": undefined,
  DEFAULT: "calendar",
  "INCEPTION-INCREMENT": "calendar",
  INCREASE: "numeric",
};

/** Refuses what has no meaning here: nothing of it is passed over. */
export function readSettings(fields: SettingsFields): Result<Settings, Refusal> {
  const kind =
    fields.kind === undefined ? undefined : KINDS.find((one) => one.toLowerCase() === fields.kind?.toLowerCase());
  if (fields.kind !== undefined && !kind) return refuse(unacceptable("pdns-kind", { kind: fields.kind.slice(0, 40) }));
  const meaningless = findMeaningless(fields);
  if (meaningless) return refuse(meaningless);
  const soaEditApi = fields.soa_edit_api?.toUpperCase();
  if (soaEditApi !== undefined && !Object.hasOwn(SOA_EDIT_API, soaEditApi)) {
    return refuse(
      noMeaning("soa_edit_api", "serials go up with every change, by one (INCREASE) or by the day (DEFAULT)"),
    );
  }
  const serialType = soaEditApi === undefined ? undefined : SOA_EDIT_API[soaEditApi];
  const denial = fields.nsec3param === NSEC3PARAM ? "nsec3" : fields.nsec3param === "" ? "nsec" : undefined;
  return ok({ kind, soaEditApi, serialType, dnssec: fields.dnssec ?? undefined, denial });
}

function findMeaningless(fields: SettingsFields): Refusal | undefined {
  const has = (list: readonly string[] | null | undefined) => (list?.length ?? 0) > 0;
  if (has(fields.masters)) return noMeaning("masters", "zones are not transferred from elsewhere");
  if (fields.catalog) return noMeaning("catalog", "catalogs hold the zones of their reseller by themselves");
  if (fields.soa_edit) return noMeaning("soa_edit", "what is signed is served under the serial that it has");
  if (fields.presigned) return noMeaning("presigned", "a zone that brings its own DNSSEC records is served as it is");
  if (fields.nsec3narrow) return noMeaning("nsec3narrow", "denials are signed ahead");
  if (has(fields.master_tsig_key_ids) || has(fields.slave_tsig_key_ids)) {
    return noMeaning("tsig_key_ids", "access lists say who may transfer with which key");
  }
  const { nsec3param } = fields;
  if (nsec3param && nsec3param !== NSEC3PARAM) {
    return noMeaning("nsec3param", `the parameters are ${NSEC3PARAM} (RFC 9276)`);
  }
  return undefined;
}

export function noMeaning(field: string, why: string): Refusal {
  return unacceptable("pdns-no-meaning", { field, reason: sentence("as-stated", { text: why }) });
}
