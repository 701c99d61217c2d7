import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import { parseDomainName } from "../../core/dns/name.ts";
import type { ZoneOwner } from "../../operations/dns/zone-creation.ts";
import { exportZone, importZone } from "../../operations/dns/zone-files.ts";
import { exportSignedZone } from "../../operations/dns/zone-signed-file.ts";
import { systemClock } from "../../platform/clock.ts";
import { findReseller } from "../../store/dns/resellers.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { findAnyZone, zoneName } from "../../store/dns/zones.ts";
import type { CommandDatabase } from "../database.ts";
import { readText, readTextFile, refusalText } from "../input.ts";
import { readNamedConf } from "../named-conf.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";
import { readZoneName, registerZoneNames } from "./zone-names.ts";
import { registerZoneUpdates } from "./zone-updates.ts";

/** A zone to import, and where its master file is. */
type ZoneSource =
  | { readonly fqdn: string; readonly file: string | typeof STANDARD_INPUT }
  /** A line of a manifest that names no file. */
  | { readonly fqdn: string; readonly problem: string };

type Imported =
  | {
      readonly domain: string;
      readonly serial: number;
      readonly records: number;
      readonly warnings?: readonly string[];
    }
  | { readonly domain: string; readonly error: string };

interface ImportOptions {
  readonly manifest?: string;
  readonly namedConf?: string;
  readonly overQuota?: boolean;
}

/** Zones that are imported at the same time. */
const IMPORTS_AT_ONCE = 4;

/** `palomar zone`: master files in and out, and exceptions to whose names are whose. */
export function registerZoneCommand(program: Command, runtime: CommandRuntime): void {
  const zone = program.command("zone").description("zones as master files");
  registerImport(zone, runtime);
  zone
    .command("export")
    .argument("<fqdn>")
    .option("--signed", "with all that signing makes of it")
    .description("print a zone, or a feed, as a master file")
    .action(async (fqdn: string, { signed = false }: { signed?: boolean }) => {
      const apex = readZoneName(runtime, fqdn);
      const write = signed ? exportSignedZone : exportZone;
      const exported = await runtime.withDatabase(({ db }) => write(db, (snapshot) => findAnyZone(snapshot, apex)));
      if (!exported) runtime.refuse(`${fqdn} does not exist`);
      const { zone: found, text } = exported;
      runtime.print({ domain: found.name, serial: found.soa.serial, zone: text }, text);
    });
  registerZoneNames(zone, runtime);
  registerZoneUpdates(zone, runtime);
}

function registerImport(zone: Command, runtime: CommandRuntime): void {
  zone
    .command("import")
    .argument("<reseller_id>")
    .argument("<crm_id>")
    .argument("[fqdn]")
    .argument("[file]", "a master file (RFC 1035); - reads standard input")
    .option("--manifest <file>", "many zones: lines of fqdn, TAB, file")
    .option("--named-conf <file>", "every primary zone of a BIND configuration")
    .option("--over-quota", "also what the quotas of the company or the reseller do not allow")
    .description("make zones of master files, or replace the records of those that are there")
    .action(async (resellerId: string, crmId: string, fqdn?: string, file?: string, options: ImportOptions = {}) => {
      const sources = readSources(runtime, fqdn, file, options);
      const results = await runtime.withDatabase(async (database) =>
        (await findReseller(database.db, resellerId))
          ? importAll(database, { resellerId, crmId, ...(options.overQuota ? { quotas: "count" } : {}) }, sources)
          : runtime.refuse(`reseller ${resellerId} does not exist`),
      );
      const refused = results.filter((result) => "error" in result);
      const imported = results.filter((result) => !("error" in result));
      for (const result of refused) runtime.note(describe(result));
      runtime.print(results, imported.map(describe).join("\n"));
      if (refused.length > 0) runtime.exitWith(1);
    });
}

/** Its descriptor: a folder may well have a file called `-`. */
const STANDARD_INPUT = 0;

function readSources(
  runtime: CommandRuntime,
  fqdn: string | undefined,
  file: string | undefined,
  { manifest, namedConf }: ImportOptions,
): readonly ZoneSource[] {
  const ways = [fqdn, manifest, namedConf].filter((way) => way !== undefined);
  if (ways.length !== 1 || (fqdn === undefined) !== (file === undefined)) {
    runtime.misused("give either fqdn and file, or --manifest, or --named-conf");
  }
  if (manifest !== undefined) return readManifest(runtime, manifest);
  if (namedConf === undefined)
    return [{ fqdn: fqdn as string, file: file === "-" ? STANDARD_INPUT : resolve(file as string) }];
  const zones = readNamedConf(namedConf, (path) => readText(runtime, path));
  return zones.ok
    ? zones.value.map(({ name, file: path }) =>
        path === undefined
          ? { fqdn: name, problem: "the configuration names no file of it" }
          : { fqdn: name, file: path },
      )
    : runtime.refuse(zones.error);
}

/** Paths are relative to the manifest's folder. */
function readManifest(runtime: CommandRuntime, path: string): ZoneSource[] {
  const lines = readText(runtime, path).split(/\r?\n/);
  return lines.flatMap((line, index): ZoneSource[] => {
    if (line.trim() === "" || line.startsWith("#")) return [];
    const [fqdn = "", file = ""] = line.split("\t");
    if (fqdn === "" || file === "") {
      return [{ fqdn: line.trim(), problem: `line ${index + 1} of the manifest is not fqdn, TAB, file` }];
    }
    return [{ fqdn, file: resolve(dirname(path), file.trim()) }];
  });
}

async function importAll(
  database: CommandDatabase,
  owner: ZoneOwner,
  sources: readonly ZoneSource[],
): Promise<Imported[]> {
  const results: Imported[] = [];
  const waiting = sources.entries();
  const work = async () => {
    for (const [index, source] of waiting) results[index] = await importOne(database, owner, source);
  };
  await Promise.all(Array.from({ length: IMPORTS_AT_ONCE }, work));
  return results;
}

async function importOne({ db, keyRing }: CommandDatabase, owner: ZoneOwner, source: ZoneSource): Promise<Imported> {
  if ("problem" in source) return { domain: source.fqdn, error: source.problem };
  const { fqdn, file } = source;
  const apex = parseDomainName(fqdn);
  if (!apex.ok) return { domain: fqdn, error: apex.error.message };
  const domain = zoneName(apex.value);
  let text: string;
  try {
    text = readTextFile(file);
  } catch (error) {
    return { domain, error: `${file}: ${(error as Error).message}` };
  }
  const signer = { keyRing, clock: systemClock };
  const scope = { resellerId: owner.resellerId };
  const target = { scope, apex: apex.value, domain, actor: COMMAND_ACTOR, signer, quotas: owner.quotas ?? "enforce" };
  const imported = await importZone(db, owner, target, { text, now: new Date() });
  if (!imported.ok) return { domain, error: refusalText(imported.error) };
  const { zone, records, warnings } = imported.value;
  await notifyZones(db, [zone.id]);
  return {
    domain,
    serial: zone.soa.serial,
    records,
    ...(warnings.length > 0 ? { warnings: warnings.map(({ message }) => message) } : {}),
  };
}

function describe(result: Imported): string {
  if ("error" in result) return `${result.domain}: ${result.error}`;
  const warnings = (result.warnings ?? []).map((warning) => `\n  warning: ${warning}`);
  return `${result.domain}: serial ${result.serial}, ${counted(result.records, "record")}${warnings.join("")}`;
}
