import type { Command } from "commander";
import {
  readResellerUpdates,
  readZoneUpdates,
  setResellerUpdates,
  setZoneUpdates,
} from "../../store/dns/dns-updates.ts";
import { findReseller } from "../../store/dns/resellers.ts";
import { zoneName } from "../../store/dns/zones.ts";
import type { CommandRuntime } from "../runtime.ts";
import { readZoneName } from "./zone-names.ts";

const SWITCH = { on: true, off: false, default: null } as const;

/** `palomar zone updates`: which zones take DNS UPDATE. */
export function registerZoneUpdates(zone: Command, runtime: CommandRuntime): void {
  zone
    .command("updates")
    .argument("<fqdn>", "a zone; with --reseller a reseller_id")
    .argument("[switch]", "on, off, or default: as the reseller's zones")
    .option("--reseller", "all zones of a reseller that do not say otherwise")
    .description("show or set whether a zone takes DNS UPDATE (RFC 2136), signed with the TSIG key of a token")
    .action(async (name: string, wanted?: string, { reseller = false }: { reseller?: boolean } = {}) => {
      const enabled = wanted === undefined ? undefined : readSwitch(runtime, wanted);
      if (reseller && enabled === null) runtime.misused("a reseller's switch is on or off");
      const shown = reseller ? await ofReseller(runtime, name, enabled) : await ofZone(runtime, name, enabled);
      const words = "default" in shown && shown.default ? ", as its reseller's zones" : "";
      runtime.print(shown, `${name} takes ${shown.enabled ? "" : "no "}updates${words}`);
    });
}

function readSwitch(runtime: CommandRuntime, text: string): boolean | null {
  return Object.hasOwn(SWITCH, text) ? SWITCH[text as keyof typeof SWITCH] : runtime.misused("say on, off or default");
}

function ofReseller(runtime: CommandRuntime, id: string, enabled: boolean | null | undefined) {
  return runtime.withDatabase(async ({ db }) => {
    if (!(await findReseller(db, id))) runtime.refuse(`reseller ${id} does not exist`);
    if (typeof enabled === "boolean") await setResellerUpdates(db, id, enabled);
    return { reseller_id: id, enabled: await readResellerUpdates(db, id) };
  });
}

function ofZone(runtime: CommandRuntime, fqdn: string, enabled: boolean | null | undefined) {
  const apex = readZoneName(runtime, fqdn);
  return runtime.withDatabase(async ({ db }) => {
    if (enabled !== undefined) await setZoneUpdates(db, {}, apex, enabled);
    const found = await readZoneUpdates(db, {}, apex);
    if (!found) runtime.refuse(`${fqdn} does not exist`);
    return { domain: zoneName(apex), enabled: found.enabled, default: found.own === null };
  });
}
