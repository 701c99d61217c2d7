import { readDeliveryPolicy } from "../delivery/policy.ts";
import { sourcesByPool } from "../delivery/routing/source-pools.ts";
import { readConfigFile } from "../platform/config/config-file.ts";
import type { CommandRuntime } from "./runtime.ts";

/** Says so on standard error where nothing leaves from a source. */
export function noteOutsidePools(runtime: Pick<CommandRuntime, "note">, source: string): void {
  const { pools } = readConfigFile("delivery.json", readDeliveryPolicy);
  const isKnown = [...sourcesByPool(pools).values()].flat().includes(source);
  if (!isKnown) runtime.note(`no pool of config/delivery.json has ${source} yet`);
}
