import type { Command } from "commander";
import type { z } from "zod";
import { isSigningAlgorithm } from "../../core/dns/dnssec/algorithm.ts";
import { DENIALS } from "../../core/dns/dnssec/denial.ts";
import { KEY_ROLES } from "../../core/dns/dnssec/dnskey.ts";
import { parseDomainName } from "../../core/dns/name.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import {
  askParent,
  confirmDsGone,
  confirmDsSeen,
  noteParentDs,
  setDsAutomatic,
  updateHostedParent,
  wishForDs,
} from "../../operations/dns/dnssec-parent.ts";
import { type detailsReply, showDetails, showSigning } from "../../operations/dns/signing-json.ts";
import { exportKey, importKeys } from "../../operations/dns/zone-signing-keys.ts";
import { findSignedZone, type SignedZone, type SigningTarget } from "../../operations/dns/zone-signing-state.ts";
import {
  disableSigning,
  enableSigning,
  KEY_LAYOUTS,
  rollOverAlgorithm,
  rollOverRole,
  type SigningWish,
} from "../../operations/dns/zone-signing-switch.ts";
import { signingWarnings, warnOfParent } from "../../operations/dns/zone-signing-warnings.ts";
import { systemClock } from "../../platform/clock.ts";
import { makeDsLookup } from "../../platform/lookups/ds-lookup.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { zoneName } from "../../store/dns/zones.ts";
import type { CommandDatabase } from "../database.ts";
import { noteWarnings, orRefuse } from "../input.ts";
import { readKeyFiles, writeKeyFiles } from "../key-files.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";

interface EnableOptions {
  readonly denial?: string;
  readonly algorithm?: string;
  readonly keys?: string;
}

type Work = (database: CommandDatabase, target: SigningTarget) => Promise<Result<SignedZone, Refusal>>;

/** `palomar dnssec`: signed zones, their keys, and what their parents must know. */
export function registerDnssecCommand(program: Command, runtime: CommandRuntime): void {
  const dnssec = program.command("dnssec").description("signed zones and their keys");
  dnssec
    .command("enable")
    .argument("<fqdn>")
    .option("--denial <kind>", "nsec or nsec3; nsec for a new one")
    .option("--algorithm <number>", "8, 13 or 15; on a signed zone another one begins a rollover")
    .option("--keys <layout>", "csk (one key) or ksk-zsk; csk for a new one")
    .description("sign a zone, or change how it is signed; prints the DS for its parent")
    .action((fqdn: string, options: EnableOptions) => {
      const wish = readWish(runtime, options);
      return changeZone(runtime, fqdn, ({ db }, target) => enableSigning(db, target, wish), signingWarnings);
    });
  dnssec
    .command("disable")
    .argument("<fqdn>")
    .option("--force", "although the parent has a DS: validators will find nothing of the zone")
    .description("stop signing a zone, once its parent has no DS any more")
    .action((fqdn: string, { force = false }: { force?: boolean }) =>
      changeZone(runtime, fqdn, async (database, target) => {
        const checked = await check(database, target);
        return checked.ok && checked.value.state ? disableSigning(database.db, target, { force }) : checked;
      }),
    );
  dnssec
    .command("show")
    .argument("<fqdn>")
    .description("how a zone is signed, its keys and their DS")
    .action((fqdn: string) =>
      runtime.withDatabase(async (database) =>
        printSigning(
          runtime,
          orRefuse(runtime, await findSignedZone(database.db, readTarget(runtime, fqdn, database))),
        ),
      ),
    );
  registerKeyChanges(dnssec, runtime);
  registerParentWords(dnssec, runtime);
}

function registerKeyChanges(dnssec: Command, runtime: CommandRuntime): void {
  dnssec
    .command("rollover")
    .argument("<fqdn>")
    .argument("[role]", "ksk, zsk or csk: the key to replace")
    .option("--algorithm <number>", "replace all keys by those of another algorithm")
    .description("begin to replace keys; the steps follow by themselves")
    .action((fqdn: string, role: string | undefined, { algorithm }: { algorithm?: string }) => {
      if ((role === undefined) === (algorithm === undefined)) runtime.misused("give either a role or --algorithm");
      return changeZone(runtime, fqdn, ({ db }, target) =>
        algorithm === undefined
          ? rollOverRole(db, target, readOneOf(runtime, KEY_ROLES, role as string))
          : rollOverAlgorithm(db, target, { algorithm: readAlgorithm(runtime, algorithm) }),
      );
    });
  const key = dnssec.command("key").description("keys in BIND's format, K<zone>+<algorithm>+<tag>.key and .private");
  key
    .command("import")
    .argument("<fqdn>")
    .argument("<file...>", "one of each pair, or the name without .key and .private")
    .description("sign a zone with keys that it has elsewhere, or bring keys into a signed zone as a rollover does")
    .action((fqdn: string, files: string[]) =>
      changeZone(
        runtime,
        fqdn,
        async ({ db }, target) => importKeys(db, target, await readKeyFiles(runtime, target.apex, files)),
        signingWarnings,
      ),
    );
  key
    .command("export")
    .argument("<fqdn>")
    .argument("<key_tag>")
    .option("--folder <path>", "where the two files go", ".")
    .description("write a key pair for BIND's tools; the private one is for its owner alone (mode 0600)")
    .action((fqdn: string, tag: string, { folder }: { folder: string }) => writeKey(runtime, fqdn, tag, folder));
}

function registerParentWords(dnssec: Command, runtime: CommandRuntime): void {
  dnssec
    .command("check")
    .argument("<fqdn>")
    .description("ask the parent now which DS it has; exit status 1 where nobody says")
    .action((fqdn: string) =>
      changeZone(
        runtime,
        fqdn,
        (database, target) =>
          check(database, target, () => {
            runtime.note(`nobody says now which DS the parent of ${fqdn} has: does PALOMAR_RESOLVER answer?`);
            runtime.exitWith(1);
          }),
        (db, { apex }, target) => warnOfParent(db, apex, target),
      ),
    );
  dnssec
    .command("ds-seen")
    .argument("<fqdn>")
    .argument("<key_tag>")
    .description("your word that the parent has the DS of a key")
    .action((fqdn: string, tag: string) => {
      const keyTag = readTag(runtime, tag);
      return changeZone(runtime, fqdn, ({ db }, target) => confirmDsSeen(db, target, keyTag));
    });
  dnssec
    .command("ds-gone")
    .argument("<fqdn>")
    .description("your word that the parent has no DS any more")
    .action((fqdn: string) => changeZone(runtime, fqdn, ({ db }, target) => confirmDsGone(db, target)));
  dnssec
    .command("ds-withdraw")
    .argument("<fqdn>")
    .option("--undo", "ask for the DS again")
    .description("ask the parent, by CDS and CDNSKEY, to remove its DS")
    .action((fqdn: string, { undo = false }: { undo?: boolean }) =>
      changeZone(runtime, fqdn, ({ db }, target) => wishForDs(db, target, undo)),
    );
  dnssec
    .command("ds-automatic")
    .argument("<fqdn>")
    .option("--off", "leave the DS there to whoever looks after the parent")
    .description(
      "have the DS in a parent that is hosted here and of the same company or reseller follow CDS by itself (the default)",
    )
    .action((fqdn: string, { off = false }: { off?: boolean }) =>
      changeZone(runtime, fqdn, ({ db }, target) => setDsAutomatic(db, target, !off)),
    );
}

/**
 * Runs the work on the zone, has a hosted parent follow, tells the servers, and prints how the zone is signed now.
 * @param findWarnings what is doubtful about it then
 */
async function changeZone(
  runtime: CommandRuntime,
  fqdn: string,
  work: Work,
  findWarnings?: typeof signingWarnings,
): Promise<void> {
  await runtime.withDatabase(async (database) => {
    const { db } = database;
    const target = readTarget(runtime, fqdn, database);
    const { zone, state } = orRefuse(runtime, await work(database, target));
    const parent = state && (await updateHostedParent(db, target));
    await notifyZones(db, parent ? [zone.id, parent.id] : [zone.id]);
    if (findWarnings && state) noteWarnings(runtime, await findWarnings(db, zone, target));
    printSigning(runtime, orRefuse(runtime, await findSignedZone(db, target)));
  });
}

function printSigning(runtime: CommandRuntime, signed: SignedZone): void {
  const shown = showSigning(signed);
  const lines = shown.keys.map(({ key_tag, role, algorithm, state, ds }) =>
    [`${key_tag} ${role} algorithm ${algorithm} ${state}`, ...ds.map((text) => `  DS ${text}`)].join("\n"),
  );
  const details = showDetails(signed);
  if (!details.ok) {
    runtime.print(shown, `${shown.domain} is not signed`);
    return;
  }
  const { ds_wanted, ds_automatic, parent } = details.value;
  const headline = `${shown.domain} is signed, denial by ${shown.denial}`;
  const wish = ds_wanted ? [] : ["asks its parent, by CDS and CDNSKEY, to remove the DS"];
  runtime.print(
    { ...shown, ds_wanted, ds_automatic, parent },
    [headline, ...lines, ...parentLines(parent), ...wish].join("\n"),
  );
}

/** What the parent said when it was last asked. */
function parentLines({ ds, authenticated, checked }: z.input<typeof detailsReply>["parent"]): string[] {
  if (ds === null) return ["parent: has not said yet which DS it has"];
  const when = checked === null ? "by the operator's word" : `${checked}${authenticated ? "" : ", not validated"}`;
  return [`parent: ${ds.length === 0 ? "has no DS" : "has the DS"} (${when})`, ...ds.map((text) => `  DS ${text}`)];
}

function readTarget(runtime: CommandRuntime, fqdn: string, { keyRing }: CommandDatabase): SigningTarget {
  const apex = parseDomainName(fqdn);
  if (!apex.ok) return runtime.refuse(`${fqdn}: ${apex.error.message}`);
  const signer = { keyRing, clock: systemClock };
  return { scope: {}, apex: apex.value, domain: zoneName(apex.value), actor: COMMAND_ACTOR, signer };
}

/** Asks the parent, and notes what it says. @param onSilence called where nobody says anything: then all stays as it is */
async function check(
  { db, config }: CommandDatabase,
  target: SigningTarget,
  onSilence = () => {},
): Promise<Result<SignedZone, Refusal>> {
  const found = await findSignedZone(db, target);
  if (!found.ok || !found.value.state) return found;
  const said = await askParent(db, target.apex, await makeDsLookup(config.resolver));
  if (said !== undefined) return noteParentDs(db, target, said);
  onSilence();
  return found;
}

async function writeKey(runtime: CommandRuntime, fqdn: string, tag: string, folder: string): Promise<void> {
  const keyTag = readTag(runtime, tag);
  const { algorithm, ...files } = await runtime.withDatabase(async (database) =>
    orRefuse(runtime, await exportKey(database.db, readTarget(runtime, fqdn, database), keyTag)),
  );
  const paths = writeKeyFiles(runtime, folder, files);
  runtime.print({ domain: fqdn, key_tag: keyTag, algorithm, ...paths }, `${paths.key}\n${paths.private}`);
}

function readWish(runtime: CommandRuntime, { denial, algorithm, keys }: EnableOptions): SigningWish {
  return {
    denial: denial === undefined ? undefined : readOneOf(runtime, DENIALS, denial),
    layout: keys === undefined ? undefined : readOneOf(runtime, KEY_LAYOUTS, keys),
    algorithm: algorithm === undefined ? undefined : readAlgorithm(runtime, algorithm),
  };
}

function readOneOf<T extends string>(runtime: CommandRuntime, choices: readonly T[], text: string): T {
  return choices.find((choice) => choice === text) ?? runtime.misused(`${text} is not one of ${choices.join(", ")}`);
}

function readAlgorithm(runtime: CommandRuntime, text: string) {
  const algorithm = Number(text);
  return isSigningAlgorithm(algorithm) ? algorithm : runtime.misused(`algorithm ${text}: it must be 8, 13 or 15`);
}

function readTag(runtime: CommandRuntime, text: string): number {
  return /^\d{1,5}$/.test(text) ? Number(text) : runtime.misused(`${text} is not a key tag`);
}
