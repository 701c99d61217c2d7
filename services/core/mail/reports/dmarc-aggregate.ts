import { Parser } from "htmlparser2";
import ipaddr from "ipaddr.js";
import { ok, type Result, refuse } from "../../result.ts";
import { readReportedDomain } from "./domain-within.ts";
import {
  DISPOSITIONS,
  type DmarcReport,
  type DmarcRow,
  fullBudget,
  type PublishedPolicy,
  plainWords,
  REPORT_LIMITS,
  type ReportHead,
  type ReportRefusal,
  readPeriod,
} from "./report.ts";

/** Elements outside of records whose texts are kept, by their path below the root. */
const HEAD_PATHS = new Set([
  ...["org_name", "email", "report_id", "date_range/begin", "date_range/end"].map((name) => `report_metadata/${name}`),
  ...["domain", "p", "sp", "adkim", "aspf", "testing"].map((name) => `policy_published/${name}`),
]);

/** Elements of a record that are asked for. */
const RECORD_PATHS = new Set([
  ...["row/source_ip", "row/count", "identifiers/header_from"],
  ...["disposition", "dkim", "spf"].map((name) => `row/policy_evaluated/${name}`),
]);
const MOST_REASONS = 20;
/** No element of a report has a longer name: each of its children would cost as much again. */
const LONGEST_NAME = 100;

/** One `<record>`, as its elements' texts by their path below it. */
interface Draft {
  readonly texts: Map<string, string>;
  readonly reasons: string[];
  readonly dkim: Signature[];
  readonly spf: Signature[];
}

interface Signature {
  readonly domain: string;
  readonly result: string;
}

/**
 * Reads a DMARC aggregate piece by piece, so that none costs more than its length. Namespaces, unknown elements, also
 * around `<feedback>`, and the order of elements do not matter. A document type is refused, since only it could declare
 * entities; nothing is ever fetched.
 * @see RFC 7489 appendix C, RFC 9990 §3
 */
export class DmarcAggregateReader {
  readonly #parser: Parser;
  readonly #path: string[] = [];
  /** Elements around the `<feedback>` that is open; undefined outside of it. */
  #around: number | undefined;
  #text = "";
  /** Of the report's head: texts by their path. */
  readonly #head = new Map<string, string>();
  readonly #rows = new Map<string, DmarcRow>();
  #record: Draft | undefined;
  #records = 0;
  #refusal: ReportRefusal | undefined;
  #isWhole = false;
  readonly #budget: { elements: number };

  /** @param budget.elements what may still be opened; it is counted down */
  constructor(budget: { elements: number } = fullBudget()) {
    this.#budget = budget;
    this.#parser = new Parser(
      {
        onopentagname: (name) => this.#open(name),
        ontext: (text) => {
          const room = REPORT_LIMITS.characters - this.#text.length;
          if (room > 0) this.#text += text.slice(0, room);
        },
        onclosetag: (_name, isImplied) => this.#close(isImplied),
        onprocessinginstruction: (name) => {
          if (name.startsWith("!")) this.#refuse("document-type");
        },
      },
      { xmlMode: true },
    );
  }

  /** @returns why no more of it needs to be read */
  write(text: string): ReportRefusal | undefined {
    if (this.#refusal === undefined) this.#parser.write(text);
    return this.#refusal;
  }

  /** What the report says; everything was written. */
  end(now: Date): Result<DmarcReport, ReportRefusal> {
    if (this.#refusal === undefined) this.#parser.end();
    if (this.#refusal !== undefined) return refuse(this.#refusal);
    const policy = this.#policy();
    const head = this.#reportHead();
    if (!this.#isWhole || policy === undefined || head === undefined) return refuse("malformed");
    const [begin, end] = [this.#seconds("begin"), this.#seconds("end")];
    const period = readPeriod(begin, end, now);
    if (period === undefined) return refuse("bad-period");
    return ok({ kind: "dmarc", ...head, ...period, policy, rows: [...this.#rows.values()] });
  }

  #open(name: string): void {
    this.#budget.elements -= 1;
    if (this.#budget.elements < 0) this.#refuse("too-large");
    if (this.#path.length >= REPORT_LIMITS.depth) this.#refuse("too-deep");
    if (name.length > LONGEST_NAME) this.#refuse("malformed");
    this.#path.push(localName(name.slice(0, LONGEST_NAME)));
    this.#text = "";
    if (this.#around === undefined && this.#path.at(-1) === "feedback") this.#around = this.#path.length - 1;
    if (this.#pathInFeedback() !== "record") return;
    this.#records += 1;
    if (this.#records > REPORT_LIMITS.records) this.#refuse("too-many-records");
    this.#record = { texts: new Map(), reasons: [], dkim: [], spf: [] };
  }

  #close(isImplied: boolean): void {
    const path = this.#pathInFeedback();
    this.#path.pop();
    const text = this.#text.trim();
    this.#text = "";
    if (path === undefined) return;
    if (path === "") {
      this.#around = undefined;
      // What ends with the text, and not by its own tag, was cut off.
      this.#isWhole = !isImplied;
    }
    const inRecord = path.startsWith("record/") ? path.slice("record/".length) : undefined;
    if (path === "record") this.#addRecord();
    else if (inRecord !== undefined && this.#record !== undefined) noteInRecord(this.#record, inRecord, text);
    else if (text !== "" && HEAD_PATHS.has(path) && !this.#head.has(path)) this.#head.set(path, text);
  }

  /** The path of the innermost element below `<feedback>`, which has an empty one; undefined outside of it. */
  #pathInFeedback(): string | undefined {
    return this.#around === undefined ? undefined : this.#path.slice(this.#around + 1).join("/");
  }

  #addRecord(): void {
    const row = this.#record && rowOf(this.#record);
    this.#record = undefined;
    if (row === undefined) this.#refuse("malformed");
    else if (row !== "nothing") {
      const key = JSON.stringify({ ...row, messages: 0 });
      const known = this.#rows.get(key);
      const messages = Math.min(row.messages + (known?.messages ?? 0), REPORT_LIMITS.messages);
      this.#rows.set(key, { ...row, messages });
    }
  }

  #policy(): PublishedPolicy | undefined {
    const of = (name: string) => plainWords(this.#head.get(`policy_published/${name}`)).toLowerCase();
    const domain = readReportedDomain(of("domain"));
    const [p, sp, adkim, aspf, testing] = [of("p"), of("sp"), of("adkim"), of("aspf"), of("testing")];
    return domain === undefined ? undefined : { domain, p, sp, adkim, aspf, testing };
  }

  #reportHead(): Pick<ReportHead, "reporter" | "contact" | "reportId"> | undefined {
    const of = (name: string) => plainWords(this.#head.get(`report_metadata/${name}`));
    const [contact, reportId] = [of("email"), of("report_id")];
    // Reporters that leave their name empty are told apart by where they are reached.
    const reporter = of("org_name") || (readReportedDomain(/@([^@>]+)>?$/.exec(contact)?.[1]) ?? "");
    return reporter === "" || reportId === "" ? undefined : { reporter, contact, reportId };
  }

  #seconds(name: "begin" | "end"): Date {
    const text = this.#head.get(`report_metadata/date_range/${name}`) ?? "";
    return new Date(/^\d{1,11}$/.test(text) ? Number(text) * 1_000 : Number.NaN);
  }

  #refuse(reason: ReportRefusal): void {
    this.#refusal ??= reason;
    this.#parser.pause();
  }
}

function localName(name: string): string {
  return name.slice(name.lastIndexOf(":") + 1).toLowerCase();
}

function noteInRecord(record: Draft, path: string, text: string): void {
  const { texts, reasons } = record;
  const [, method, part] = /^auth_results\/(dkim|spf)(?:\/(domain|result))?$/.exec(path) ?? [];
  if (path === "row/policy_evaluated/reason/type") {
    if (reasons.length < MOST_REASONS) reasons.push(plainWords(text).toLowerCase());
  } else if (method === undefined) {
    if (RECORD_PATHS.has(path)) texts.set(path, text);
  } else if (part !== undefined) texts.set(`${method}/${part}`, text);
  else {
    const domain = readReportedDomain(texts.get(`${method}/domain`)) ?? "";
    const result = (texts.get(`${method}/result`) ?? "").toLowerCase();
    record[method as "dkim" | "spf"].push({ domain, result });
    texts.delete(`${method}/domain`);
    texts.delete(`${method}/result`);
  }
}

/** @returns undefined: it is no record; `nothing`: of no message */
function rowOf({ texts, reasons, dkim, spf }: Draft): DmarcRow | "nothing" | undefined {
  const source = readAddress(texts.get("row/source_ip") ?? "");
  const count = texts.get("row/count") ?? "";
  const headerFrom = readReportedDomain(texts.get("identifiers/header_from"));
  if (source === undefined || headerFrom === undefined || !/^\d{1,15}$/.test(count)) return undefined;
  if (Number(count) === 0) return "nothing";
  const evaluated = (name: string) => (texts.get(`row/policy_evaluated/${name}`) ?? "").toLowerCase();
  const disposition = DISPOSITIONS.find((known) => known === evaluated("disposition")) ?? "none";
  return {
    source,
    messages: Math.min(Number(count), REPORT_LIMITS.messages),
    headerFrom,
    dkim: evaluated("dkim") === "pass",
    spf: evaluated("spf") === "pass",
    disposition,
    overridden: reasons.find((reason) => reason !== "") ?? "",
    dkimDomain: telling(dkim),
    spfDomain: telling(spf),
  };
}

/** Of several results the one that passed says most about who sent it. */
function telling(results: readonly Signature[]): string {
  return (results.find(({ result }) => result === "pass") ?? results[0])?.domain ?? "";
}

/** An address in the one form in which it is compared; IPv4 within IPv6 as IPv4. */
function readAddress(text: string): string | undefined {
  const isWhole = ipaddr.IPv4.isValidFourPartDecimal(text) || (text.includes(":") && ipaddr.IPv6.isValid(text));
  if (!isWhole || text.includes("%")) return undefined;
  const address = ipaddr.process(text);
  return address.kind() === "ipv4" ? address.toString() : (address as ipaddr.IPv6).toRFC5952String();
}
