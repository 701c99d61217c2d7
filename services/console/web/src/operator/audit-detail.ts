import type { Sentence } from "../../../../core/sentences.ts";
import type { Texts } from "../texts/en/index.ts";

type Words = Readonly<Record<string, string>>;
type Detail = Readonly<Record<string, unknown>>;

/** What the details of a change are shown with. */
export interface DetailWords {
  readonly texts: Texts;
  readonly describeReason: (reason: Sentence) => string;
  readonly formatTime: (moment: string) => string;
}

/** What the audit log tells of a change beside its object, each by its name in the reader's language. */
export function describeDetail(detail: Detail, words: DetailWords): string {
  const names: Words = words.texts.operator.audit.fields;
  return Object.entries(detail)
    .map(([name, value]) => `${names[name] ?? name}: ${shown(value, wordsFor(name, detail, words.texts), words)}`)
    .join("; ");
}

function shown(value: unknown, values: Words, words: DetailWords): string {
  const { yes, no } = words.texts.shell;
  if (Array.isArray(value) && value.length > 0) return value.map((one) => shown(one, values, words)).join(", ");
  if (value === null || String(value) === "") return "–";
  if (typeof value === "object")
    return isSentence(value) ? words.describeReason(value) : describeDetail({ ...value }, words);
  if (String(value) === "true") return yes;
  if (String(value) === "false") return no;
  return values[String(value)] ?? (isMoment(String(value)) ? words.formatTime(String(value)) : String(value));
}

/** What the pages call the values of a field. */
function wordsFor(name: string, detail: Detail, { shell, mail, operator }: Texts): Words {
  const values: Readonly<Record<string, Words>> = {
    at: { now: mail.campaigns.now },
    format: operator.feeds.formats,
    kind: mail.suppressions.kinds,
    language: shell.language,
    limit: operator.audit.limits,
    mta_sts: mail.domains.wishes.stsModes,
    over: mail.guard.overs,
    role: shell.roles,
    // A user's is the name of a reseller, a company or an instance.
    ...("role" in detail ? {} : { scope: mail.guard.scopes }),
  };
  return values[name] ?? {};
}

function isSentence(value: object): value is Sentence {
  return "code" in value && "values" in value && "message" in value;
}

/** RFC 3339 with its offset. */
function isMoment(text: string): boolean {
  return /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(text) && !Number.isNaN(Date.parse(text));
}
