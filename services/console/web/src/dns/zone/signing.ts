/** How a zone is signed, as the DNS API has it. */
export interface Signing {
  readonly domain: string;
  readonly enabled: boolean;
  readonly denial: Denial;
  readonly keys: readonly SigningKey[];
}

export const DENIALS = ["nsec", "nsec3"] as const;
export type Denial = (typeof DENIALS)[number];

export const KEY_LAYOUTS = ["csk", "ksk-zsk"] as const;

/** Algorithms by number, the usual one first. */
export const ALGORITHMS: ReadonlyMap<number, string> = new Map([
  [13, "ECDSA P-256 SHA-256 (13)"],
  [15, "Ed25519 (15)"],
  [8, "RSA SHA-256 (8)"],
]);

export type KeyRole = "ksk" | "zsk" | "csk";

export interface SigningKey {
  readonly key_tag: number;
  readonly role: KeyRole;
  readonly algorithm: number;
  readonly state: "generated" | "published" | "ready" | "active" | "retired" | "removed";
  /** Data of the DS records for the parent; none of a key that it is not to have one of. */
  readonly ds: readonly string[];
}

/** When the keys came and go, and what the parent was last seen with. */
export interface SigningDetails {
  /** Whether CDS and CDNSKEY ask the parent for the DS, or for its removal. */
  readonly ds_wanted: boolean;
  /** Whether a parent that is hosted here in the same hand follows that by itself. */
  readonly ds_automatic: boolean;
  readonly parent: {
    /** null: it has not been seen. */
    readonly ds: readonly string[] | null;
    /** Whether its answer was validated; null: there was none. */
    readonly authenticated: boolean | null;
    readonly checked: string | null;
  };
  readonly keys: readonly {
    readonly key_tag: number;
    readonly since: string;
    readonly until: string | null;
    readonly ds_seen: boolean;
  }[];
}

/** What every part of a signed zone's page is handed. */
export interface SignedZoneProps {
  /** Of the zone's signing. */
  readonly path: string;
  readonly signing: Signing;
  readonly reload: () => void;
}
