import { ok, type Result, refuse } from "../../result.ts";
import { onlySentence, type Sentence, sentence } from "../../sentences.ts";
import { type DomainName, parseDomainName } from "../name.ts";
import { parsePeriodSeconds } from "../period.ts";
import { parseRdataTokens } from "../rdata/rdata.ts";
import { MAX_TTL_SECONDS, type ResourceRecord } from "../record.ts";
import { isMetaType, TYPE, typeCode, typeMnemonic } from "../rr-types.ts";
import { decodeSoaRdata } from "../soa.ts";
import {
  type GenerateRange,
  isTemplate,
  parseGenerateRange,
  rangeSize,
  sectionsOf,
  substituteNumber,
} from "./generate-directive.ts";
import { type Entry, MasterLexer, type TextPosition, type Token } from "./lexer.ts";

/** What is wrong with an entry of a master file, and where. */
export interface MasterFileError extends TextPosition, Sentence {}

/** A record, and where its entry starts. */
export interface PlacedRecord {
  readonly record: ResourceRecord;
  readonly position: TextPosition;
  /** It stands for several of `$GENERATE`: how many, and the last of them (`MasterFileOptions.sections`). */
  readonly section?: { readonly count: number; readonly last: ResourceRecord };
}

const DEFAULT_MAX_GENERATED = 65_536;

/** How to read a master file. */
export interface MasterFileOptions {
  /** Initial origin. */
  readonly origin: DomainName;
  /** TTL of records for which the file gives none, neither by itself nor by `$TTL`, an earlier record or its SOA. */
  readonly defaultTtlSeconds?: number;
  /** Records that all `$GENERATE` directives together may make; 0 refuses the directive. Default 65,536. */
  readonly maxGenerated?: number;
  /** Reads of each `$GENERATE` just the first and the last of so many sections: enough to tell what all come to. */
  readonly sections?: number;
}

/**
 * Reads a master file record by record. `$INCLUDE` is refused: a file may not name another of the server's.
 * After a refused entry the next one can be read, unless the text itself cannot be parted into entries.
 * @see RFC 1035 §5, RFC 2308 §4 ($TTL), RFC 3597 §5 (unknown types)
 */
export class MasterFileReader {
  readonly #options: MasterFileOptions;
  readonly #lexer: MasterLexer;
  #origin: DomainName;
  #owner: DomainName | undefined;
  /** What #owner was read from: most files repeat it, or mean the same name again. */
  #ownerText = "";
  #firstTtlDirective: number | undefined;
  #ttlDirective: number | undefined;
  #lastTtl: number | undefined;
  #generated = 0;
  #isAstray = false;

  constructor(text: string, options: MasterFileOptions) {
    this.#options = options;
    this.#origin = options.origin;
    // A byte order mark is no part of the first owner's name.
    this.#lexer = new MasterLexer(text.replace(/^\ufeff/, ""), "master-file");
  }

  /** The first `$TTL` so far, seconds. */
  get firstTtlSeconds(): number | undefined {
    return this.#firstTtlDirective;
  }

  /** Whether a directive was refused: what follows may mean something else than it says. */
  get isAstray(): boolean {
    return this.#isAstray;
  }

  /** The records, and what is wrong with entries, one after the other. */
  *records(): Generator<Result<PlacedRecord, MasterFileError>, void> {
    for (;;) {
      const entry = this.#lexer.nextEntry();
      if (!entry.ok) {
        // Where one entry ends and the next starts is not known any more.
        yield entry;
        return;
      }
      if (entry.value === undefined) return;
      yield* this.#readEntry(entry.value);
    }
  }

  *#readEntry(entry: Entry): Generator<Result<PlacedRecord, MasterFileError>, void> {
    const { tokens, startsWithBlank } = entry;
    const first = tokens[0]!;
    if (startsWithBlank || first.quoted || !first.text.startsWith("$")) {
      yield this.#readRecord(entry);
    } else if (first.text.toUpperCase() === "$GENERATE") {
      yield* this.#generate(tokens);
    } else {
      const problem = this.#readDirective(tokens);
      if (problem === undefined) return;
      this.#isAstray = true;
      yield refuse(problem);
    }
  }

  #readDirective(tokens: readonly Token[]): MasterFileError | undefined {
    const [directive, argument, extra] = tokens as [Token, Token | undefined, Token | undefined];
    const name = directive.text.toUpperCase();
    if (name === "$INCLUDE") return at(directive, sentence("no-include"));
    if (name !== "$ORIGIN" && name !== "$TTL") return at(directive, sentence("no-directive", { text: directive.text }));
    if (argument === undefined) return at(directive, sentence("directive-argument", { name }));
    if (extra !== undefined) return at(extra, sentence("directive-extra", { text: extra.text, name }));
    return name === "$ORIGIN" ? this.#setOrigin(argument) : this.#setTtl(argument);
  }

  #setOrigin(argument: Token): MasterFileError | undefined {
    const origin = parseDomainName(argument.text, this.#origin);
    if (!origin.ok) return at(argument, origin.error);
    this.#origin = origin.value;
    this.#ownerText = "";
    return undefined;
  }

  #setTtl(argument: Token): MasterFileError | undefined {
    const seconds = parsePeriodSeconds(argument.text, MAX_TTL_SECONDS);
    if (seconds === undefined)
      return at(argument, sentence("no-ttl", { text: argument.text, least: 0, most: MAX_TTL_SECONDS }));
    this.#ttlDirective = seconds;
    this.#firstTtlDirective ??= seconds;
    return undefined;
  }

  /** `$GENERATE range owner [ttl] [class] type rdata`: a record per number of the range. */
  *#generate(tokens: readonly Token[]): Generator<Result<PlacedRecord, MasterFileError>, void> {
    const plan = this.#planGenerate(tokens);
    if (!plan.ok) {
      yield plan;
      return;
    }
    const [owner, ownerText] = [this.#owner, this.#ownerText];
    if (this.#options.sections !== undefined) yield* this.#readSections(plan.value, this.#options.sections);
    else yield* this.#readRange(plan.value);
    // BIND: a record without owner that follows belongs to the one before the directive.
    [this.#owner, this.#ownerText] = [owner, ownerText];
  }

  *#readRange(plan: GeneratePlan): Generator<Result<PlacedRecord, MasterFileError>, void> {
    const { start, stop, step } = plan.range;
    for (let number = start; number <= stop; number += step) {
      const generated = this.#readGenerated(plan, number);
      yield generated;
      // The entry is wrong, and is said to be so once.
      if (!generated.ok) return;
    }
  }

  *#readSections(plan: GeneratePlan, most: number): Generator<Result<PlacedRecord, MasterFileError>, void> {
    for (const { first, last, count } of sectionsOf(plan.range, most)) {
      const begin = this.#readGenerated(plan, first);
      const end = begin.ok ? this.#readGenerated(plan, last) : begin;
      if (!begin.ok || !end.ok) {
        yield end;
        return;
      }
      yield ok({ ...begin.value, section: { count, last: end.value.record } });
    }
  }

  #readGenerated({ templates, data }: GeneratePlan, number: number): Result<PlacedRecord, MasterFileError> {
    const fields = data === undefined ? ok([]) : lexFields(data, number);
    if (!fields.ok) return fields;
    const head = templates.map((token) =>
      token.text.includes("$") ? { ...token, text: substituteNumber(token.text, number) } : token,
    );
    return this.#readRecord({ tokens: [...head, ...fields.value], startsWithBlank: false });
  }

  #planGenerate(tokens: readonly Token[]): Result<GeneratePlan, MasterFileError> {
    const [directive, rangeToken] = tokens as [Token, Token | undefined];
    const range = parseGenerateRange(rangeToken?.text ?? "");
    if (range === undefined) return refuse(at(rangeToken ?? directive, sentence("generate-range")));
    this.#generated += rangeSize(range);
    const maximum = this.#options.maxGenerated ?? DEFAULT_MAX_GENERATED;
    if (this.#generated > maximum) return refuse(at(directive, sentence("generate-too-many", { most: maximum })));
    const templates = generateTemplates(tokens);
    if (!templates.ok) return templates;
    const malformed = tokens.slice(2).find(({ text }) => !isTemplate(text, range));
    if (malformed !== undefined)
      return refuse(
        at(malformed, sentence("generate-template", { text: malformed.text, form: `\${offset,width,base}` })),
      );
    return ok({ range, ...templates.value });
  }

  #readRecord(entry: Entry): Result<PlacedRecord, MasterFileError> {
    const { tokens } = entry;
    const head = this.#readHead(entry);
    if (!head.ok) return head;
    const { owner, type, rdataStart } = head.value;
    const rdata = parseRdataTokens(type, tokens, { origin: this.#origin, context: "master-file" }, rdataStart);
    if (!rdata.ok) {
      const { line, column } = { ...tokens.at(-1)!, ...rdata.error };
      return refuse({
        line,
        column,
        ...sentence("of-a-record", { type: typeMnemonic(type), part: rdata.error.field, reason: rdata.error }),
      });
    }
    const ttl = this.#ttlOf(head.value, rdata.value);
    const { line, column } = tokens[0]!;
    if (ttl === undefined) return refuse({ line, column, ...sentence("record-without-ttl") });
    return ok({ record: { owner, type, ttl, rdata: rdata.value }, position: { line, column } });
  }

  /** `[owner] [ttl] [class] type`, TTL and class in either order. */
  #readHead({ tokens, startsWithBlank }: Entry): Result<RecordHead, MasterFileError> {
    const owner = this.#readOwner(startsWithBlank ? undefined : tokens[0], tokens[0]!);
    if (!owner.ok) return owner;
    let index = startsWithBlank ? 0 : 1;
    let ttlSeconds: number | undefined;
    let hasClass = false;
    for (let token = tokens[index]; token !== undefined; index += 1, token = tokens[index]) {
      if (!hasClass && /^(?:IN|CH|HS|CLASS\d+)$/i.test(token.text)) {
        if (!/^(?:IN|CLASS1)$/i.test(token.text))
          return refuse(at(token, sentence("class-not-served", { text: token.text })));
        hasClass = true;
      } else if (ttlSeconds === undefined && /^\d/.test(token.text)) {
        ttlSeconds = parsePeriodSeconds(token.text, MAX_TTL_SECONDS);
        if (ttlSeconds === undefined)
          return refuse(at(token, sentence("no-ttl", { text: token.text, least: 0, most: MAX_TTL_SECONDS })));
      } else {
        const type = typeCode(token.text);
        if (type === undefined || token.quoted)
          return refuse(at(token, sentence("no-record-type", { text: token.text })));
        if (isMetaType(type)) return refuse(at(token, sentence("no-data-type", { type: token.text })));
        return ok({ owner: owner.value, ttlSeconds, type, rdataStart: index + 1 });
      }
    }
    return refuse(at(tokens.at(-1)!, sentence("record-without-type")));
  }

  #readOwner(token: Token | undefined, entryStart: Token): Result<DomainName, MasterFileError> {
    if (token === undefined) {
      return this.#owner === undefined ? refuse(at(entryStart, sentence("record-without-owner"))) : ok(this.#owner);
    }
    if (token.text === this.#ownerText && this.#owner !== undefined) return ok(this.#owner);
    // A quoted owner is a name like any other, as with BIND and NSD.
    const owner = parseDomainName(token.text, this.#origin);
    if (!owner.ok) {
      // Records without owner that follow must not go to the one before.
      this.#owner = undefined;
      return refuse(at(token, owner.error));
    }
    this.#owner = owner.value;
    this.#ownerText = token.text;
    return owner;
  }

  /**
   * RFC 2308 §4: a record without a TTL has that of `$TTL`; without the directive the last explicit one
   * (RFC 1035 §5.1), at first the SOA's minimum.
   */
  #ttlOf({ ttlSeconds, type }: RecordHead, rdata: Uint8Array): number | undefined {
    if (ttlSeconds !== undefined) this.#lastTtl = ttlSeconds;
    else if (type === TYPE.SOA) this.#lastTtl ??= Math.min(decodeSoaRdata(rdata).minimum, MAX_TTL_SECONDS);
    return ttlSeconds ?? this.#ttlDirective ?? this.#lastTtl ?? this.#options.defaultTtlSeconds;
  }
}

/** A `$GENERATE`: the numbers, and the record's tokens to put them into. */
interface GeneratePlan {
  readonly range: GenerateRange;
  readonly templates: readonly Token[];
  /** The one quoted string that the record's data stands in. */
  readonly data?: Token;
}

/** What stands in front of a record's RDATA, and what follows. */
interface RecordHead {
  readonly owner: DomainName;
  readonly ttlSeconds: number | undefined;
  readonly type: number;
  /** Index of the first token of RDATA. */
  readonly rdataStart: number;
}

/**
 * The owner, TTL, class, type and data of `$GENERATE`. Data that is one quoted string is, as BIND has it, all of the
 * record's fields: a `\"` in it is a quote of theirs.
 */
function generateTemplates(tokens: readonly Token[]): Result<Omit<GeneratePlan, "range">, MasterFileError> {
  const templates = tokens.slice(2);
  if (templates.length < 2) return refuse(at(tokens[0]!, sentence("generate-parts")));
  const isType = ({ text, quoted }: Token, index: number) => index > 0 && !quoted && typeCode(text) !== undefined;
  const [data, ...more] = templates.slice(templates.findIndex(isType) + 1);
  if (!data?.quoted || more.length > 0) return ok({ templates });
  const text = data.text.replace(/\\([\s\S])/g, (pair, escaped) => (escaped === '"' ? '"' : pair));
  return ok({ templates: templates.slice(0, -1), data: { ...data, text } });
}

/** The fields of data that stands in one quoted string, with the number in them. */
function lexFields(data: Token, number: number): Result<Token[], MasterFileError> {
  const entry = new MasterLexer(substituteNumber(data.text, number), "master-file").nextEntry();
  if (!entry.ok) return refuse(at(data, entry.error));
  const { line, column } = data;
  return ok((entry.value?.tokens ?? []).map((field) => ({ ...field, line, column: column + field.column })));
}

function at({ line, column }: TextPosition, what: Sentence): MasterFileError {
  return { line, column, ...onlySentence(what) };
}
