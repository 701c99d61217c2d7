import type { Command } from "commander";
import { type DomainName, parseDomainName } from "../../core/dns/name.ts";
import { type AccountedFinding, auditZones } from "../../operations/dns/zone-audit.ts";
import { allowZone, disallowZone, listAllowances, type ZoneAllowance } from "../../store/dns/zone-allowances.ts";
import type { AccountedZone } from "../../store/dns/zone-names.ts";
import { zoneName } from "../../store/dns/zones.ts";
import type { CommandRuntime } from "../runtime.ts";

/** Whose name is whose: exceptions from the rule, and what breaks it. */
export function registerZoneNames(zone: Command, runtime: CommandRuntime): void {
  zone
    .command("allow")
    .argument("[fqdn]")
    .argument("[reseller_id]")
    .option("--list", "print what is allowed, and who keeps names below a zone for having had them first")
    .description("let a reseller have a zone below another reseller's, of one label, or at a public suffix")
    .action(async (fqdn?: string, resellerId?: string, { list = false }: { list?: boolean } = {}) => {
      if (list !== (fqdn === undefined)) runtime.misused("give either fqdn and reseller_id, or --list");
      if (fqdn === undefined) return printAllowances(runtime);
      if (resellerId === undefined) runtime.misused("give the reseller_id too");
      const apex = readZoneName(runtime, fqdn);
      const known = await runtime.withDatabase(({ db }) => allowZone(db, apex, resellerId));
      if (!known) runtime.refuse(`reseller ${resellerId} does not exist`);
      const domain = zoneName(apex);
      runtime.print({ domain, reseller_id: resellerId }, `${resellerId} may have ${domain}`);
    });
  zone
    .command("disallow")
    .argument("<fqdn>")
    .argument("<reseller_id>")
    .description("take back what `allow --list` shows of a name and a reseller; zones that are there stay")
    .action(async (fqdn: string, resellerId: string) => {
      const apex = readZoneName(runtime, fqdn);
      const domain = zoneName(apex);
      const wasAllowed = await runtime.withDatabase(({ db }) => disallowZone(db, apex, resellerId));
      if (!wasAllowed) runtime.refuse(`${resellerId} is not allowed ${domain}`);
      runtime.print({ domain, reseller_id: resellerId }, `${resellerId} is allowed ${domain} no longer`);
    });
  zone
    .command("audit")
    .description(
      "print zones of two companies one of which lies below the other, and public suffixes; 1 if there are any",
    )
    .action(async () => {
      const found = await runtime.withDatabase(({ db }) => runtime.printEach(findings(auditZones(db)), describe));
      if (found > 0) runtime.exitWith(1);
    });
}

/** A name of the command line. */
export function readZoneName(runtime: CommandRuntime, fqdn: string): DomainName {
  const name = parseDomainName(fqdn);
  return name.ok ? name.value : runtime.refuse(`${fqdn}: ${name.error.message}`);
}

async function printAllowances(runtime: CommandRuntime): Promise<void> {
  const allowances = await runtime.withDatabase(({ db }) => listAllowances(db));
  const json = allowances.map(({ domain, resellerId, covers }) => ({ domain, reseller_id: resellerId, covers }));
  const inWords = ({ domain, resellerId, covers }: ZoneAllowance) =>
    covers === "name"
      ? `${resellerId} may have ${domain}`
      : `${resellerId} keeps the names that it had below ${domain}`;
  runtime.print(json, allowances.map(inWords).join("\n"));
}

interface ZoneJson {
  readonly domain: string;
  readonly reseller_id: string | null;
  readonly crm_id: string;
  readonly created: string;
  /** Whose leave it was made by; null where it is not known. */
  readonly made_by: string | null;
  /** Who made it, as the history has it; null where that does not reach back so far. */
  readonly actor: string | null;
}

type FindingJson =
  | { readonly finding: "pair"; readonly verdict: string; readonly above: ZoneJson; readonly below: ZoneJson }
  | { readonly finding: "public-suffix"; readonly verdict: "refused"; readonly zone: ZoneJson };

async function* findings(found: AsyncIterable<AccountedFinding>): AsyncGenerator<FindingJson> {
  for await (const { finding, actors } of found) {
    const show = ({ id, domain, resellerId, crmId, createdAt, madeBy }: AccountedZone): ZoneJson => ({
      domain,
      reseller_id: resellerId,
      crm_id: crmId,
      created: createdAt.toISOString(),
      made_by: madeBy,
      actor: actors.get(id) ?? null,
    });
    if (finding.kind === "public-suffix") {
      yield { finding: finding.kind, verdict: "refused", zone: show(finding.zone) };
    } else {
      const { verdict, above, below } = finding;
      yield { finding: "pair", verdict, above: show(above), below: show(below) };
    }
  }
}

function describe(found: FindingJson): string {
  if (found.finding === "public-suffix") return `${inWords(found.zone)} is a public suffix or has one label`;
  const today = found.verdict === "refused" ? "would be refused today" : "is allowed, with a warning";
  return `${inWords(found.below)} lies below ${inWords(found.above)}: ${today}`;
}

function inWords({ domain, reseller_id, crm_id, created, made_by, actor }: ZoneJson): string {
  const maker = actor ?? made_by;
  return `${domain} (${crm_id} of ${reseller_id}, made ${created}${maker === null ? "" : ` by ${maker}`})`;
}
