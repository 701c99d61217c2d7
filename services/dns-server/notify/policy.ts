import { z } from "zod";
import { bySchema, readConfigFile } from "../../platform/config/config-file.ts";

const atLeastOne = z.int().min(1);

const notifyPolicy = z.strictObject({
  waitSeconds: z.array(atLeastOne).min(1),
  restMs: z.int().min(0),
  inFlightPerServer: atLeastOne,
});

/**
 * The content of config/dns-notify.json.
 * `waitSeconds`: how long an acknowledgement is waited for, after the first sending, the second, …; then the server is
 * left to its own refresh (RFC 1996 §3.6). `restMs`: changes of a zone that come so soon after another are told
 * together. `inFlightPerServer`: zones that a server is told of at a time.
 */
export type NotifyPolicy = z.output<typeof notifyPolicy>;

/** Reads the file. @throws with a sentence when its content is not as described */
export function loadNotifyPolicy(): NotifyPolicy {
  return readConfigFile("dns-notify.json", bySchema(notifyPolicy));
}
