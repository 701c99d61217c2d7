import type { Command } from "commander";
import { type DomainName, parseDomainName } from "../../core/dns/name.ts";
import { checkZoneName } from "../../core/dns/zone-checks.ts";
import type { Refusal } from "../../core/refusal.ts";
import { addCatalog, removeCatalog } from "../../store/catalogs.ts";
import { notifyZones } from "../../store/zone-notices.ts";
import { zoneName } from "../../store/zones.ts";
import type { CommandRuntime } from "../runtime.ts";

const ACTOR = "operator";

/** `palomar catalog`: catalog zones, by which secondaries learn of a reseller's zones (RFC 9432). */
export function registerCatalogCommand(program: Command, runtime: CommandRuntime): void {
  const catalog = program.command("catalog").description("catalog zones: a reseller's zones, for its secondaries");
  catalog
    .command("add")
    .argument("<reseller_id>")
    .argument("<zone>")
    .description("publish a catalog of the reseller's active zones")
    .action(async (resellerId: string, zone: string) => {
      const apex = readApex(runtime, zone);
      await runtime.withDatabase(async ({ db }) => {
        const added = await addCatalog(db, resellerId, apex, ACTOR);
        if (!added.ok) return runtime.refuse(textOf(added.error));
        await notifyZones(db, [added.value.id]);
      });
      runtime.print({ reseller_id: resellerId, zone: zoneName(apex) }, `${resellerId} ${zoneName(apex)}`);
    });
  catalog
    .command("remove")
    .argument("<reseller_id>")
    .argument("<zone>")
    .description("publish the catalog no longer; the zones in it stay")
    .action(async (resellerId: string, zone: string) => {
      const apex = readApex(runtime, zone);
      await runtime.withDatabase(async ({ db }) => {
        const removed = await removeCatalog(db, resellerId, apex);
        if (!removed.ok) return runtime.refuse(textOf(removed.error));
        await notifyZones(db, [removed.value]);
      });
      runtime.print({ reseller_id: resellerId, zone: zoneName(apex) }, `${zoneName(apex)} removed`);
    });
}

function readApex(runtime: CommandRuntime, text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) return runtime.refuse(`${text}: ${name.error.message}`);
  const lawful = checkZoneName(name.value);
  return lawful.ok ? name.value : runtime.refuse(lawful.error.message);
}

function textOf(refusal: Refusal): string {
  return refusal.kind === "unacceptable" ? refusal.text : refusal.kind;
}
