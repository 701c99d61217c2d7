import type { Command } from "commander";
import { readSenderDomain } from "../../core/customer-input.ts";
import { MOST_SPF_LOOKUPS } from "../../core/mail/domain-setup/spf.ts";
import {
  type CheckSurroundings,
  checkDomain,
  findDomain,
  findExchangers,
  startRotation,
} from "../../operations/mail/domain-check.ts";
import {
  filesToPaste,
  readSettings,
  type SettingsGiven,
  showItem,
  showProposedItem,
  showUpkeep,
} from "../../operations/mail/domain-settings.ts";
import {
  agreeToSetup,
  type DomainToSetUp,
  proposeSetup,
  type SetupProposal,
} from "../../operations/mail/domain-setup.ts";
import { systemClock } from "../../platform/clock.ts";
import { makePublicLook } from "../../platform/lookups/authoritative-lookup.ts";
import { listFurtherKeys } from "../../store/mail/instances/dkim-keys.ts";
import {
  changeUpkeep,
  type DomainUpkeep,
  postponeDomain,
  type UpkeepSettings,
} from "../../store/mail/instances/domain-upkeep.ts";
import type { CommandDatabase } from "../database.ts";
import { orRefuse, refusalText } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";
import { makeWriteZone } from "../write-zone.ts";

/**
 * `palomar instance domain check|setup`: what a sender domain publishes, and what it should.
 * @param domain the command `instance domain`
 */
export function registerDomainSetup(domain: Command, runtime: CommandRuntime): void {
  domain
    .command("check")
    .argument("<name>")
    .argument("<domain>")
    .description(
      "look now at what its name servers say, and take the steps of its keys that follow; exit status 1 where something differs",
    )
    .action((name: string, given: string) =>
      withDomain(runtime, name, given, async (to, surroundings) => {
        const found = await checkDomain(surroundings, to.own, { upkeep: to.upkeep, now: now() });
        const checks = found.checks.map(showItem);
        runtime.print({ domain: to.own.domain, checks }, checks.map(itemLine).join("\n"));
        if (checks.some(({ action }) => action !== "keep")) runtime.exitWith(1);
      }),
    );
  domain
    .command("setup")
    .argument("<name>")
    .argument("<domain>")
    .option(
      "--agree <fingerprint>",
      "write the proposal of this fingerprint to the zones that are hosted here, and keep the settings",
    )
    .option("--flatten", "put addresses in the place of what the SPF policy includes", false)
    .option("--mta-sts <mode>", "a policy for mail to the domain: off, testing or enforce")
    .option("--tls-reports <on|off>", "have reports about TLS of mail to the domain sent here")
    .option("--tracking-host <host>", "a name below the domain that recipients' links lead to, or `none`")
    .option("--rotate-days <days>", "change its DKIM keys so often, or `never`")
    .option("--zone-file", "print what is to be done elsewhere as a piece of a master file", false)
    .option("--domain-connect", "print the same as a template of Domain Connect", false)
    .description(
      "show what would make its mail aligned, signed and reported, as differences; with --agree write it; settings are tried, and kept with --agree alone",
    )
    .action((name: string, given: string, options: SetupOptions) =>
      withDomain(runtime, name, given, (to, surroundings) => setUp(runtime, { name, to, options }, surroundings)),
    );
}

/** `palomar instance dkim rotate`. @param dkim the command `instance dkim` */
export function registerDkimRotate(dkim: Command, runtime: CommandRuntime): void {
  dkim
    .command("rotate")
    .argument("<name>")
    .argument("<domain>")
    .description(
      "begin a change of its DKIM keys: new ones are published, and signed with once all name servers have them; in the place of keys of a lost secret at once",
    )
    .action((name: string, given: string) =>
      withDomain(runtime, name, given, async (to, { db, keyRing }) => {
        const { own, upkeep } = to;
        if ((await startRotation({ db, keyRing }, upkeep, now())) === 0) {
          runtime.refuse(`new keys of ${own.domain} are under way already`);
        }
        await postponeDomain(db, upkeep, now());
        const changed = (await findDomain(db, upkeep.instanceId, own.domain)) ?? to;
        const shown = showUpkeep(changed, await listFurtherKeys(db, upkeep));
        runtime.print(shown, shown.keys.map(({ name: at, state }) => `${at}\t${state}`).join("\n"));
      }),
    );
}

interface SetupOptions {
  readonly agree?: string;
  readonly flatten: boolean;
  readonly mtaSts?: string;
  readonly tlsReports?: string;
  readonly trackingHost?: string;
  readonly rotateDays?: string;
  readonly zoneFile: boolean;
  readonly domainConnect: boolean;
}

async function setUp(
  runtime: CommandRuntime,
  { name, to: given, options }: { readonly name: string; readonly to: DomainToSetUp; readonly options: SetupOptions },
  surroundings: CheckSurroundings,
): Promise<void> {
  const { db, config } = surroundings;
  const { domain } = given.own;
  const settings = orRefuse(runtime, readSettings(given.upkeep, readOptions(runtime, options), now()));
  const upkeep = await findExchangers(surroundings.openLook(), { ...given.upkeep, ...settings });
  const to = { ...given, upkeep };
  if (options.agree !== undefined) {
    const agreed = { to, settings, flatten: options.flatten, fingerprint: options.agree };
    return agree(runtime, agreed, surroundings);
  }
  const proposal = await proposeSetup(surroundings, to, { right: "operator", flatten: options.flatten });
  const items = proposal.items.map(showProposedItem);
  const files = filesToPaste(config.bounceDomain, domain, proposal.items);
  const shown = { ...showUpkeep(to, await listFurtherKeys(db, to.upkeep)), items, fingerprint: proposal.fingerprint };
  const text = options.zoneFile
    ? files.zone_file
    : options.domainConnect
      ? JSON.stringify(files.domain_connect, null, 2)
      : [proposalText(proposal, wayToWrite(name, domain, options)), ...endText(upkeep)].join("\n");
  runtime.print({ ...shown, may_write: proposal.mayWrite, ...files }, text);
  const unanswered = proposal.items.filter(({ zone, fault }) => zone === undefined && fault?.kind === "unanswered");
  if (unanswered.length > 0 && (options.zoneFile || options.domainConnect)) {
    runtime.note(`nobody said what is there: ${[...new Set(unanswered.map(({ name: at }) => at))].join(", ")}`);
    runtime.exitWith(1);
  }
}

interface Agreed {
  readonly to: DomainToSetUp;
  /** Kept once it is written. */
  readonly settings: UpkeepSettings;
  readonly flatten: boolean;
  readonly fingerprint: string;
}

async function agree(
  runtime: CommandRuntime,
  { to, settings, flatten, fingerprint }: Agreed,
  surroundings: CheckSurroundings,
): Promise<void> {
  const { db, write } = surroundings;
  const agreement = { right: "operator", flatten, fingerprint, login: COMMAND_ACTOR, write } as const;
  const { written, refused } = orRefuse(runtime, await agreeToSetup(surroundings, to, agreement));
  await changeUpkeep(db, to.upkeep, settings);
  if (Object.keys(settings).length > 0) await postponeDomain(db, to.upkeep, now());
  const items = written.map(showProposedItem);
  const told = refused.map(({ zone, reason }) => ({ zone, reason: refusalText(reason) }));
  runtime.print({ written: items, refused: told }, items.map(itemLine).join("\n"));
  for (const { zone, reason } of told) runtime.note(`${zone} is left as it was: ${reason}`);
  if (told.length > 0) runtime.exitWith(1);
}

function readOptions(runtime: CommandRuntime, options: SetupOptions): SettingsGiven {
  const { mtaSts, tlsReports, trackingHost, rotateDays } = options;
  if (mtaSts !== undefined && mtaSts !== "off" && mtaSts !== "testing" && mtaSts !== "enforce") {
    return runtime.misused(`${mtaSts} is none of off, testing and enforce`);
  }
  if (tlsReports !== undefined && tlsReports !== "on" && tlsReports !== "off") {
    return runtime.misused(`${tlsReports} is neither on nor off`);
  }
  const isDays = rotateDays === undefined || rotateDays === "never" || /^\d{1,4}$/.test(rotateDays);
  if (!isDays || Number(rotateDays) < LEAST_ROTATE_DAYS) {
    return runtime.misused(`${rotateDays} is no number of days, ${LEAST_ROTATE_DAYS} or more`);
  }
  return {
    ...(mtaSts === undefined ? {} : { mta_sts: mtaSts }),
    ...(tlsReports === undefined ? {} : { tls_reports: tlsReports === "on" }),
    ...(trackingHost === undefined ? {} : { tracking_host: trackingHost === "none" ? null : trackingHost }),
    ...(rotateDays === undefined ? {} : { rotate_days: rotateDays === "never" ? null : Number(rotateDays) }),
  };
}

const LEAST_ROTATE_DAYS = 7;

/** The same command again, for whoever agrees, and whether there are settings to keep. */
function wayToWrite(name: string, domain: string, options: SetupOptions) {
  const { flatten, mtaSts, tlsReports, trackingHost, rotateDays } = options;
  const settings = [
    ...(mtaSts === undefined ? [] : ["--mta-sts", mtaSts]),
    ...(tlsReports === undefined ? [] : ["--tls-reports", tlsReports]),
    ...(trackingHost === undefined ? [] : ["--tracking-host", trackingHost]),
    ...(rotateDays === undefined ? [] : ["--rotate-days", rotateDays]),
  ];
  const words = ["palomar instance domain setup", name, domain, ...(flatten ? ["--flatten"] : []), ...settings];
  return { words, hasSettings: settings.length > 0 };
}

function proposalText(
  { items, fingerprint }: SetupProposal,
  { words, hasSettings }: ReturnType<typeof wayToWrite>,
): string {
  const lines = items.map((item) => {
    const place =
      item.zone === undefined && item.action !== "keep" ? "\n  (not in a zone that is written from here)" : "";
    return itemLine(showProposedItem(item)) + place;
  });
  const isWritten = items.some(
    ({ zone, action }) => zone !== undefined && ["add", "modify", "remove"].includes(action),
  );
  const way = `To write it: ${words.join(" ")} --agree ${fingerprint}`;
  return [...lines, ...(isWritten || hasSettings ? [way] : [])].join("\n");
}

/** What happens to a policy that is withdrawn. */
function endText({ stsEndsAt }: DomainUpkeep): string[] {
  if (stsEndsAt === null) return [];
  return [`MTA-STS: the policy is served with mode none, and its records stay, until ${stsEndsAt.toISOString()}`];
}

const SIGNS = { keep: " ", add: "+", modify: "~", remove: "-", ask: "?" } as const;

/** An item as a difference: what goes, what comes, and what is wrong. */
function itemLine({ name, type, action, before, after, fault, spf_lookups }: ReturnType<typeof showItem>): string {
  const lines = [`${SIGNS[action]} ${name} ${type}`];
  if (action === "keep") lines.push(`    ${after}`);
  else {
    if (before !== null) lines.push(`  ${action === "ask" ? "  " : "- "}${before}`);
    if (after !== null) lines.push(`  + ${after}`);
  }
  if (fault) lines.push(`  ! ${fault.kind}: ${fault.at}`);
  if (spf_lookups !== null) lines.push(`    ${spf_lookups} of ${MOST_SPF_LOOKUPS} look-ups`);
  return lines.join("\n");
}

function now(): Date {
  return new Date(systemClock.nowMs());
}

function withDomain(
  runtime: CommandRuntime,
  name: string,
  given: string,
  use: (to: DomainToSetUp, surroundings: CheckSurroundings) => Promise<void>,
): Promise<void> {
  const domain = orRefuse(runtime, readSenderDomain(given));
  return withInstance(runtime, name, async (database: CommandDatabase, { id }) => {
    const to = await findDomain(database.db, id, domain);
    if (to === undefined) return runtime.refuse(`${name} has no ${given}`);
    const openLook = await makePublicLook({ config: database.config });
    await use(to, { ...database, openLook, clock: systemClock, write: makeWriteZone(database) });
  });
}
