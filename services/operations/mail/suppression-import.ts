import type { Readable } from "node:stream";
import { parseSuppressionTarget } from "../../core/mail/suppression.ts";
import { parseDateOrMoment } from "../../core/moment.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findCampaignUnsubscriptions } from "../../store/mail/contacts/standings.ts";
import type { SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import type { ImportOptions, ImportReport } from "./contact-import.ts";
import { columnMissing, findHeaderFault, nameCells, readHeader, readRecords } from "./csv-records.ts";
import { type Listed, listEntries, rehearseEntries, type Suppression } from "./list-entries.ts";
import { type ImportError, RejectedLines } from "./rejected-lines.ts";
import { ADDED_KINDS, type AddedKind, findUnfitKind } from "./suppressions.ts";

/** Their addresses, and the contacts among them, are locked together. */
const LINES_PER_WRITE = 250;
export const MOST_NOTE_CHARACTERS = 500;

/**
 * Reads a list from CSV: UTF-8, commas, a header with `address` (an address or a domain), and where they are there `kind`
 * (by-hand where it is empty), `since`, `note` and `campaign`; other columns are left alone, so that an export can be read
 * back: where it came from it changes nothing. Elsewhere unsubscriptions from one campaign are refused. Bad lines are
 * reported and do not stop good ones.
 * @param options.creator login of who brings them in
 * @param options.now what lies ahead of it by more than a day is no moment that something was listed at
 */
export async function importSuppressions(
  db: Db,
  owner: SuppressionOwner,
  csv: Readable,
  options: ImportOptions & { readonly creator: string; readonly now: Date },
): Promise<ImportReport> {
  const errors = new RejectedLines(options.mostErrors);
  const report = { created: 0, updated: 0 };
  const list = options.dryRun
    ? rehearseEntries(db, owner)
    : (entries: readonly Suppression[]) => listEntries(db, owner, entries);
  const handle = makeHandle(db, owner, report, list);
  let waiting: Line[] = [];
  const flush = async () => {
    const lines = waiting;
    waiting = [];
    errors.push(...(await handle(lines)));
  };
  let header: readonly string[] | undefined;
  for await (const { line, record } of readRecords(csv, errors)) {
    if (header === undefined) {
      header = readHeader(record).map((name) => (name === "email" ? "address" : name));
      const fault = findHeaderFault(header, "address");
      if (fault !== undefined)
        return { created: 0, updated: 0, rejected: 0, errors: [{ line, reason: inEnglish(fault) }] };
      continue;
    }
    options.onProgress?.(line - 2);
    const read = readLine(header, record, options);
    const fault = read.ok ? findUnfitKind(owner, read.value.entry.target, read.value.entry.kind) : read.error;
    if (read.ok && !fault) waiting.push({ line, ...read.value });
    else if (fault) errors.push({ line, reason: fault });
    if (waiting.length >= LINES_PER_WRITE) {
      await flush();
    }
  }
  if (header === undefined && errors.count === 0) {
    return { created: 0, updated: 0, rejected: 0, errors: [{ line: 1, reason: inEnglish(columnMissing("address")) }] };
  }
  await flush();
  const said = errors.first().map(({ line, reason }) => ({ line, reason: inEnglish(reason) }));
  return { ...report, rejected: errors.count, errors: said };
}

/** What contacts' imports say in the words of their API, said in the language of everything else about lists. */
function inEnglish(reason: Sentence): Sentence {
  const { column = "", most = "", place = "" } = (reason.values ?? {}) as Readonly<Record<string, string>>;
  if (reason.code === "column-missing") return sentence("suppression-column-missing", { column });
  if (reason.code === "column-missing-commas") return sentence("suppression-column-missing-commas", { column });
  if (reason.code === "column-invalid") return sentence("suppression-column-invalid", { column });
  if (reason.code === "csv-header-too-long") return sentence("suppression-header-too-long", { most });
  if (reason.code === "csv-not-utf8") return sentence("suppression-not-utf8");
  if (reason.code === "csv-line-invalid") return sentence("suppression-line-unreadable");
  if (reason.code === "csv-too-many-columns") return sentence("suppression-columns-many");
  if (reason.code === "csv-column-unnamed") return sentence("suppression-column-unnamed", { place });
  return reason.code === "csv-invalid" ? sentence("suppression-no-csv") : reason;
}

interface Line {
  readonly line: number;
  readonly entry: Suppression;
  /** Of an unsubscription from this campaign alone. */
  readonly campaignNumid?: number;
}

function readLine(
  header: readonly string[],
  record: readonly string[],
  { creator, now }: { readonly creator: string; readonly now: Date },
): Result<Omit<Line, "line">, Sentence> {
  const named = nameCells(header, record);
  if (!named.ok) return named;
  const cell = (name: string) => (named.value.get(name) ?? "").trim();
  if (cell("address") === "") return refuse(columnMissing("address"));
  const target = parseSuppressionTarget(cell("address"));
  if (!target.ok) return refuse(sentence("email-invalid", { reason: target.error }));
  const kind = cell("kind") === "" ? "by-hand" : cell("kind");
  if (!(ADDED_KINDS as readonly string[]).includes(kind)) return refuse(sentence("column-invalid", { column: "kind" }));
  const since = cell("since") === "" ? undefined : parseDateOrMoment(cell("since"));
  if (cell("since") !== "" && !(since && isMoment(since, now)))
    return refuse(sentence("column-invalid", { column: "since" }));
  if (cell("note").length > MOST_NOTE_CHARACTERS) return refuse(sentence("column-invalid", { column: "note" }));
  const campaign = cell("campaign");
  const isOfCampaign = kind === "unsubscribed" && !target.value.isDomain && /^[1-9]\d{0,14}$/.test(campaign);
  if (campaign !== "" && !isOfCampaign) return refuse(sentence("column-invalid", { column: "campaign" }));
  const entry = { target: target.value, kind: kind as AddedKind, note: cell("note"), creator, since };
  return ok(isOfCampaign ? { entry, campaignNumid: Number(campaign) } : { entry });
}

function isMoment(date: Date, now: Date): boolean {
  return date.getTime() > 0 && date.getTime() <= now.getTime() + 86_400_000;
}

interface Count {
  created: number;
  updated: number;
}

/** Does what some lines say, in their order. @returns what could not be done */
type Handle = (lines: readonly Line[]) => Promise<ImportError[]>;

/** @param list puts entries on the list, or only says what would become of them */
function makeHandle(
  db: Db,
  owner: SuppressionOwner,
  report: Count,
  list: (entries: readonly Suppression[]) => Promise<readonly Listed[]>,
): Handle {
  return async (lines) => {
    const ofCampaigns = lines.filter(({ campaignNumid }) => campaignNumid !== undefined);
    const ofEverything = lines.filter(({ campaignNumid }) => campaignNumid === undefined);
    const errors = await passCampaigns(db, owner, report, ofCampaigns);
    const listed = await list(ofEverything.map(({ entry }) => entry));
    for (const [index, done] of listed.entries()) {
      if (!done.ok) errors.push({ line: ofEverything[index]!.line, reason: done.error });
      else if (done.value === "added") report.created++;
      else report.updated++;
    }
    return errors;
  };
}

/** An unsubscription from one campaign is its person's, who says so in a message of it: what is there already counts. */
async function passCampaigns(
  db: Db,
  owner: SuppressionOwner,
  report: Count,
  lines: readonly Line[],
): Promise<ImportError[]> {
  if (lines.length === 0) return [];
  const wanted = lines.map(({ entry, campaignNumid }) => ({ key: entry.target.key, campaignNumid: campaignNumid! }));
  const known = owner === "operator" ? new Set() : await findCampaignUnsubscriptions(db, owner.instanceId, wanted);
  const errors: ImportError[] = [];
  for (const [index, { line }] of lines.entries()) {
    const { key, campaignNumid } = wanted[index]!;
    if (known.has(`${key} ${campaignNumid}`)) report.updated++;
    else errors.push({ line, reason: sentence("suppression-of-campaign") });
  }
  return errors;
}
