/** A company, as lists show it. */
export interface CompanySummary {
  readonly crm_id: string;
  readonly name: string;
  readonly suspended: boolean;
  readonly domains: number;
}

/** A company with its key. */
export interface Company extends CompanySummary {
  readonly apikey: string;
}

/** A key of 256 bits that travels in a header field. */
export function makeApiKey(): string {
  const octets = crypto.getRandomValues(new Uint8Array(32));
  return btoa(String.fromCharCode(...octets))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
