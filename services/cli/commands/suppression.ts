import { type Command, Option } from "commander";
import {
  parseSuppressionTarget,
  SUPPRESSION_KINDS,
  type SuppressionKind,
  type SuppressionTarget,
} from "../../core/mail/suppression.ts";
import { importSuppressions, MOST_NOTE_CHARACTERS } from "../../operations/mail/suppression-import.ts";
import {
  ADDED_KINDS,
  type AddedKind,
  exportSuppressions,
  suppress,
  type Unsuppression,
  unsuppress,
} from "../../operations/mail/suppressions.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  type ListedSuppression,
  listGlobalSuppressions,
  listSuppressions,
} from "../../store/mail/contacts/suppression-list.ts";
import type { SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import { openInput, printCsv, printImport, readAll } from "../csv.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";

const LISTED = 1_000;
/** In the place of an instance's name, which has no such character: the operator's list, which holds for all. */
const GLOBAL = "@global";

/** `palomar suppression …`: who is not to be mailed, by an instance or by all. */
export function registerSuppressionCommand(program: Command, runtime: CommandRuntime): void {
  const suppression = program
    .command("suppression")
    .description(`who is not to be mailed, by an instance or (in the place of its name: ${GLOBAL}) by all`);
  registerList(suppression, runtime);
  registerAdd(suppression, runtime);
  registerRemove(suppression, runtime);
  registerImport(suppression, runtime);
  registerExport(suppression, runtime, () => program.opts().json === true);
}

function registerList(suppression: Command, runtime: CommandRuntime): void {
  suppression
    .command("list")
    .argument("<instance>", WHOSE)
    .option("--search <text>", "part of the address, or the whole of it")
    .addOption(new Option("--kind <kind>", "only these").choices(SUPPRESSION_KINDS))
    .description(`the first ${LISTED} entries: what, why, since when, and by what event`)
    .action(async (whose: string, { search, kind }: { readonly search?: string; readonly kind?: SuppressionKind }) => {
      const { entries } = await withList(runtime, whose, (db, owner) => {
        const sought = { text: search, kind };
        return owner === "operator"
          ? listGlobalSuppressions(db, sought, { limit: LISTED })
          : listSuppressions(db, owner.instanceId, sought, { limit: LISTED });
      });
      runtime.print(entries, entries.map(toLine).join("\n"));
    });
}

const WHOSE = `its name, or ${GLOBAL}`;

function toLine({ target, kind, since, cause, campaign, note }: ListedSuppression): string {
  const why = cause === null ? "" : [cause.event, cause.detail.reason, cause.eeid].filter(Boolean).join(" ");
  return [target ?? "(erased)", kind, since?.toISOString() ?? "", why, campaign?.name ?? "", note].join("\t");
}

function registerAdd(suppression: Command, runtime: CommandRuntime): void {
  suppression
    .command("add")
    .argument("<instance>", WHOSE)
    .argument("<target>", "an address, or a domain for all addresses of it")
    .addOption(new Option("--kind <kind>", "why").choices(ADDED_KINDS).default("by-hand"))
    .option("--note <text>", "words for whoever reads the list", "")
    .description("mail an address or a domain no more")
    .action(
      async (whose: string, given: string, { kind, note }: { readonly kind: AddedKind; readonly note: string }) => {
        const target = readTarget(runtime, given);
        if (note.length > MOST_NOTE_CHARACTERS) runtime.misused(`a note has up to ${MOST_NOTE_CHARACTERS} characters`);
        const done = await withList(runtime, whose, (db, owner) =>
          suppress(db, owner, { target, kind, note, creator: "" }),
        );
        if (!done.ok) return runtime.refuse(done.error.message);
        runtime.print({ target: target.text, kind, added: done.value === "added" }, `${target.text} ${done.value}`);
      },
    );
}

const REFUSALS: Readonly<Record<Exclude<Unsuppression, "removed">, string>> = {
  unknown: "is not on the list",
  whitelisted: "is whitelisted",
  "own-unsubscription": "unsubscribed: only its person can take that back",
};

function registerRemove(suppression: Command, runtime: CommandRuntime): void {
  suppression
    .command("remove")
    .argument("<instance>", WHOSE)
    .argument("<target>", "an address or a domain")
    .addOption(new Option("--kind <kind>", "the entry of this kind").choices(SUPPRESSION_KINDS))
    .description("let an address or a domain be mailed again")
    .action(async (whose: string, given: string, { kind }: { readonly kind?: SuppressionKind }) => {
      const target = readTarget(runtime, given);
      const done = await withList(runtime, whose, (db, owner) => unsuppress(db, owner, target.key, kind));
      if (done !== "removed") runtime.refuse(`${target.text} ${REFUSALS[done]}`);
      runtime.print({ target: target.text, removed: true }, "removed");
    });
}

function readTarget(runtime: CommandRuntime, given: string): SuppressionTarget {
  const target = parseSuppressionTarget(given);
  return target.ok ? target.value : runtime.refuse(target.error.message);
}

function registerImport(suppression: Command, runtime: CommandRuntime): void {
  suppression
    .command("import")
    .argument("<instance>", WHOSE)
    .argument(
      "<file>",
      "CSV with a header: address, and where there are such kind, since, note; - reads standard input. What an export has of single campaigns (campaign) is refused where it is not there already",
    )
    .option("--dry-run", "report what would be done, and change nothing", false)
    .description("list what a CSV names")
    .action(async (whose: string, file: string, { dryRun }: { readonly dryRun: boolean }) => {
      const csv = await openInput(runtime, file);
      const report = await withList(runtime, whose, (db, owner) =>
        importSuppressions(db, owner, csv, { creator: "", dryRun, now: new Date() }),
      );
      printImport(runtime, report);
    });
}

function registerExport(suppression: Command, runtime: CommandRuntime, wantsJson: () => boolean): void {
  suppression
    .command("export")
    .argument("<instance>", WHOSE)
    .description("print the list as CSV")
    .action(async (whose: string) => {
      await withList(runtime, whose, async (db, owner) => {
        const lines = exportSuppressions(db, owner);
        if (wantsJson()) runtime.print({ csv: await readAll(lines) }, "");
        else await printCsv(lines);
      });
    });
}

async function withList<T>(
  runtime: CommandRuntime,
  whose: string,
  use: (db: Db, owner: SuppressionOwner) => Promise<T>,
): Promise<T> {
  if (whose === GLOBAL) return runtime.withDatabase(({ db }) => use(db, "operator"));
  return withInstance(runtime, whose, ({ db }, { id }) => use(db, { instanceId: id }));
}
