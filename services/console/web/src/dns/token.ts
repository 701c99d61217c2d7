import type { PolicyVerb } from "../../../../core/dns/policy-verbs.ts";

/** What a token, or its TSIG key, may do; nulls do not restrict. */
export interface Policy {
  readonly access: "read" | "write";
  readonly networks: readonly string[] | null;
  readonly zones: readonly string[] | null;
  readonly names: readonly string[] | null;
  readonly types: readonly string[] | null;
  readonly verbs: readonly PolicyVerb[];
}

/** A token without its secrets. */
export interface Token extends Policy {
  readonly name: string;
  /** The company whose it is; null: the reseller's own. */
  readonly crm_id: string | null;
  readonly api: boolean;
  readonly tsig: { readonly name: string; readonly algorithm: string } | null;
  readonly expires: string | null;
  readonly last_used: string | null;
  readonly last_used_from: string | null;
}

/** A token with its secrets, which are shown once. */
export interface MadeToken extends Omit<Token, "tsig"> {
  readonly token: string | null;
  readonly tsig: { readonly name: string; readonly algorithm: string; readonly secret: string } | null;
}

/** What may be done with the records of a name. */
export interface Permissions {
  readonly read: boolean;
  readonly verbs: readonly string[];
  readonly refused_by: "networks" | "zones" | "names" | "types" | "verbs" | null;
}
