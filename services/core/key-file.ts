import { API_KEY_KINDS, purposesOf } from "./key-purposes.ts";
import type { KeyRing } from "./key-ring.ts";

/**
 * The text of a service's key file, which `KeyRing.parse` reads: its purposes, each with the key in force and those
 * before it.
 * @param withDigestKeys adds what the service makes digests of API keys with, which a file leaves to the database
 * @throws MissingKey
 */
export function formatKeyFile(
  keyRing: KeyRing,
  service: string,
  { withDigestKeys = false }: { readonly withDigestKeys?: boolean } = {},
): string {
  const purposes = purposesOf(service);
  const kinds = API_KEY_KINDS.filter((kind) => withDigestKeys && purposes.includes(`api-key-${kind}`));
  return `# keys of ${service}\n${keyRing.format(purposes)}${keyRing.formatDigestKeys(kinds)}`;
}
