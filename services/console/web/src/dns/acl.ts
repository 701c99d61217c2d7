/** An access list for transfers; the key's secret is shown by its stanza alone. */
export interface Acl {
  readonly name: string;
  readonly blocks: readonly string[];
  readonly tsig: { readonly name: string; readonly algorithm: string } | null;
  /** null: all zones of the reseller. */
  readonly zones: readonly string[] | null;
}

/** As TSIG names them (RFC 8945 §6), the usual one first. */
export const TSIG_ALGORITHMS = ["hmac-sha256", "hmac-sha512", "hmac-sha384", "hmac-sha224", "hmac-sha1"] as const;

/** The name servers whose configuration can be shown, with what a reader calls them. */
export const NAME_SERVERS = [
  { value: "bind", label: "BIND" },
  { value: "nsd", label: "NSD" },
  { value: "knot", label: "Knot DNS" },
  { value: "pdns", label: "PowerDNS" },
  { value: "unbound", label: "Unbound" },
] as const;

/** The resolvers that read policy feeds. */
export const RESOLVERS = [
  { value: "bind", label: "BIND" },
  { value: "unbound", label: "Unbound" },
  { value: "recursor", label: "PowerDNS Recursor" },
] as const;
