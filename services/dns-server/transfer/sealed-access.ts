import type { KeyRing } from "../../core/key-ring.ts";
import { open, seal } from "../../core/secret-box.ts";
import type { TransferAccess } from "../../store/dns/transfer-access.ts";

const PURPOSE = "transfer-access";

/** Who may transfer what, keys included, as text that tells nothing to whoever lacks the name servers' key. */
export function sealAccess({ keys, restricted, ...plainParts }: TransferAccess, keyRing: KeyRing): string {
  const plain: PlainAccess = {
    ...plainParts,
    keys: keys.map((key) => ({ ...key, secret: Buffer.from(key.secret).toString("base64") })),
    restricted: restricted.map((zone) => ({ ...zone, apex: Buffer.from(zone.apex).toString("base64") })),
  };
  return seal(keyRing, PURPOSE, JSON.stringify(plain));
}

/** What `sealAccess` was given. @throws when it was made with a key that the ring does not hold */
export function openAccess(sealed: string, keyRing: KeyRing): TransferAccess {
  const opened = open(keyRing, PURPOSE, sealed);
  if (!opened.ok) throw new Error(`the transfer access is ${opened.error}: PALOMAR_SECRET was changed`);
  // Text of an earlier version has no unopened keys.
  const { keys, restricted, unopenedKeys = [], ...plainParts }: PlainAccess = JSON.parse(opened.value.toString("utf8"));
  return {
    ...{ ...plainParts, unopenedKeys },
    keys: keys.map((key) => ({ ...key, secret: Buffer.from(key.secret, "base64") })),
    restricted: restricted.map((zone) => ({ ...zone, apex: Buffer.from(zone.apex, "base64") })),
  };
}

/** As JSON has it: octets in base64. */
interface PlainAccess extends Omit<TransferAccess, "keys" | "restricted"> {
  readonly keys: readonly (Omit<TransferAccess["keys"][number], "secret"> & { readonly secret: string })[];
  readonly restricted: readonly (Omit<TransferAccess["restricted"][number], "apex"> & { readonly apex: string })[];
}
