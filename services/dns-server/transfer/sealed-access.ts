import { open, seal } from "../../core/secret-box.ts";
import type { TransferAccess } from "../../store/dns/transfer-access.ts";

const PURPOSE = "transfer-access";

/** Who may transfer what, keys included, as text that tells nothing to whoever lacks the deployment's secret. */
export function sealAccess({ version, keys, grants, restricted }: TransferAccess, secret: string): string {
  const plain: PlainAccess = {
    ...{ version, grants },
    keys: keys.map((key) => ({ ...key, secret: Buffer.from(key.secret).toString("base64") })),
    restricted: restricted.map((zone) => ({ ...zone, apex: Buffer.from(zone.apex).toString("base64") })),
  };
  return seal(secret, PURPOSE, JSON.stringify(plain));
}

/** What `sealAccess` was given. @throws when it was made with a secret that the keyring does not hold */
export function openAccess(sealed: string, secret: string): TransferAccess {
  const opened = open(secret, PURPOSE, sealed);
  if (!opened.ok) throw new Error(`the transfer access is ${opened.error}: PALOMAR_SECRET was changed`);
  const { version, keys, grants, restricted }: PlainAccess = JSON.parse(opened.value.toString("utf8"));
  return {
    ...{ version, grants },
    keys: keys.map((key) => ({ ...key, secret: Buffer.from(key.secret, "base64") })),
    restricted: restricted.map((zone) => ({ ...zone, apex: Buffer.from(zone.apex, "base64") })),
  };
}

/** As JSON has it: octets in base64. */
interface PlainAccess extends Pick<TransferAccess, "version" | "grants"> {
  readonly keys: readonly (Omit<TransferAccess["keys"][number], "secret"> & { readonly secret: string })[];
  readonly restricted: readonly (Omit<TransferAccess["restricted"][number], "apex"> & { readonly apex: string })[];
}
