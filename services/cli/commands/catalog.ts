import type { Command } from "commander";
import { type DomainName, parseDomainName } from "../../core/dns/name.ts";
import { addCatalog, removeCatalog } from "../../operations/dns/catalogs.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { zoneName } from "../../store/dns/zones.ts";
import { noteWarnings, orRefuse } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";

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
      const warnings = await runtime.withDatabase(async ({ db }) => {
        const by = { actor: COMMAND_ACTOR, maker: "operator" } as const;
        const added = orRefuse(runtime, await addCatalog(db, resellerId, apex, by));
        await notifyZones(db, [added.zone.id]);
        return added.warnings;
      });
      noteWarnings(runtime, warnings);
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
        const id = orRefuse(runtime, await removeCatalog(db, resellerId, apex));
        await notifyZones(db, [id]);
      });
      runtime.print({ reseller_id: resellerId, zone: zoneName(apex) }, `${zoneName(apex)} removed`);
    });
}

function readApex(runtime: CommandRuntime, text: string): DomainName {
  const name = parseDomainName(text);
  return name.ok ? name.value : runtime.refuse(`${text}: ${name.error.message}`);
}
