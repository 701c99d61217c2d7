import { z } from "zod";
import { type DomainName, domainNameFromWire, isSubdomain, parseDomainName } from "../../core/dns/name.ts";
import { formatRdata, isTextType, parseRdata, rdataNames, rdataReason } from "../../core/dns/rdata/rdata.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { isMetaType, TYPE, typeCode } from "../../core/dns/rr-types.ts";
import { ofRrset, type RrsetChange } from "../../core/dns/rrset-edits.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";
import { missingField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { WantedSoa } from "../../operations/dns/zone-records.ts";
import { checkSoa } from "../../operations/dns/zone-soa.ts";
import type { CommentChange } from "../../store/dns/powerdns-zones.ts";
import { noMeaning } from "./zone-settings.ts";

const MOST_SECONDS = 2 ** 31 - 1;
/** The end of the year 9999. */
const LATEST_SECONDS = 253_402_300_799;

const comment = z.object({
  content: z.string().max(65_535),
  account: z.string().max(255).default(""),
  modified_at: z.int().min(0).max(LATEST_SECONDS).optional(),
});

/** An RRset as programs send it. */
export const rrsetFields = z.object({
  name: z.string(),
  type: z.string(),
  ttl: z.int().min(0).max(MOST_SECONDS).optional(),
  changetype: z.string().optional(),
  records: z
    .array(
      z.object({
        content: z.string().max(270_000),
        disabled: z.boolean().optional(),
        "set-ptr": z.boolean().nullable().optional(),
        priority: z.union([z.int(), z.string()]).nullable().optional(),
      }),
    )
    .nullable()
    .optional(),
  comments: z.array(comment).nullable().optional(),
});
export type RrsetFields = z.output<typeof rrsetFields>;

/** What RRsets of a request come to. */
export interface ReadRrsets {
  /** All but the SOA. */
  readonly changes: readonly RrsetChange[];
  readonly soa: WantedSoa | undefined;
  /** Remarks that take the place of those of their RRsets. */
  readonly comments: readonly CommentChange[];
}

const VERBS = ["REPLACE", "DELETE", "EXTEND", "PRUNE"] as const;
type Verb = (typeof VERBS)[number];

/** What stands for whatever a relative name would be relative to: no name of anybody ends so. */
const NOWHERE = nameOf("not-absolute.invalid");

/** Reads changes of RRsets, each of which may be replaced or deleted once. */
export function readChanges(rrsets: readonly RrsetFields[], apex: DomainName, now: Date): Result<ReadRrsets, Refusal> {
  const changes: RrsetChange[] = [];
  const comments: CommentChange[] = [];
  let soa: WantedSoa | undefined;
  const once = new Set<string>();
  for (const fields of rrsets) {
    const verb = readVerb(fields);
    if (!verb.ok) return verb;
    const rrset = readRrset(fields, apex, verb.value);
    if (!rrset.ok) return rrset;
    // Nothing lies outside: there is nothing to delete.
    if (rrset.value === undefined) continue;
    const { owner, type } = rrset.value;
    const key = `${verb.value} ${type} ${owner.key}`;
    if ((verb.value === "REPLACE" || verb.value === "DELETE") && once.has(key)) {
      return refuse(ofRrset(rrset.value, sentence("rrset-twice", { verb: verb.value })));
    }
    once.add(key);
    if (fields.comments) comments.push({ owner, type, comments: readComments(fields.comments, now) });
    if (fields.records === undefined && fields.comments && verb.value === "REPLACE") continue;
    if (type !== TYPE.SOA) changes.push(rrset.value);
    else {
      const wanted = readSoa(rrset.value);
      if (!wanted.ok) return wanted;
      soa = wanted.value;
    }
  }
  return ok({ changes, soa, comments });
}

/** Reads all RRsets of a zone. */
export function readWhole(
  rrsets: readonly RrsetFields[],
  apex: DomainName,
  now: Date,
): Result<ReadRrsets & { readonly records: readonly ResourceRecord[] }, Refusal> {
  const read = readChanges(
    rrsets.map((fields) => ({ ...fields, changetype: "REPLACE" })),
    apex,
    now,
  );
  if (!read.ok) return read;
  const records = read.value.changes.flatMap(({ owner, type, ttl = 0, rdatas }) =>
    rdatas.map((rdata) => ({ owner, type, ttl, rdata })),
  );
  return ok({ ...read.value, records });
}

/** A name that is written as a whole. */
export function readCanonical(text: string): Result<DomainName, Refusal> {
  if (!text.endsWith(".")) return refuse(unacceptable("pdns-not-canonical", { name: text }));
  const name = parseDomainName(text);
  return name.ok ? name : refuse(unacceptable("pdns-no-name", { name: text, reason: name.error }));
}

function readVerb({ changetype, name }: RrsetFields): Result<Verb, Refusal> {
  if (changetype === undefined) return refuse(missingField("changetype"));
  const verb = VERBS.find((one) => one === changetype.toUpperCase());
  if (verb) return ok(verb);
  const text = changetype.toUpperCase().slice(0, 40);
  return refuse(unacceptable("for-name", { name, reason: sentence("rrset-changetype", { verb: text }) }));
}

/** @returns undefined for the deletion of what lies outside of the zone */
function readRrset(fields: RrsetFields, apex: DomainName, verb: Verb): Result<RrsetChange | undefined, Refusal> {
  const owner = readCanonical(fields.name);
  if (!owner.ok) return owner;
  const type = typeCode(fields.type.toUpperCase());
  if (type === undefined || (isMetaType(type) && type !== TYPE.SOA)) {
    const reason = sentence(type === undefined ? "rrset-unknown-type" : "rrset-no-type");
    return refuse(unacceptable("for-name", { name: `RRset ${fields.name} IN ${fields.type.slice(0, 40)}`, reason }));
  }
  const rrset = { owner: owner.value, type };
  if (!isSubdomain(owner.value, apex)) {
    return verb === "DELETE" ? ok(undefined) : refuse(ofRrset(rrset, sentence("rrset-out-of-zone")));
  }
  const isApex = owner.value.labelCount === apex.labelCount;
  if (type === TYPE.SOA && !isApex) return refuse(ofRrset(rrset, sentence("rrset-at-apex")));
  if (type === TYPE.DNSKEY && !isApex) return refuse(ofRrset(rrset, sentence("rrset-at-apex")));
  if (type === TYPE.DS && isApex) return refuse(ofRrset(rrset, sentence("rrset-not-at-apex")));
  const rdatas = readRecords(fields, rrset, verb);
  if (!rdatas.ok) return rdatas;
  const isForRecords = fields.records !== undefined && fields.records !== null && fields.records.length > 0;
  if (verb === "REPLACE" && isForRecords && fields.ttl === undefined) return refuse(missingField("ttl"));
  const change = verb.toLowerCase() as RrsetChange["verb"];
  return ok({ ...rrset, verb: change, ttl: fields.ttl, rdatas: rdatas.value });
}

function readRecords(
  { records }: RrsetFields,
  rrset: { readonly owner: DomainName; readonly type: number },
  verb: Verb,
): Result<Uint8Array[], Refusal> {
  const refused = (reason: Sentence) => refuse(ofRrset(rrset, reason));
  if (verb === "DELETE") return ok([]);
  const given = records ?? [];
  if (verb === "EXTEND" && given.length === 0) return refused(sentence("rrset-no-record", { verb }));
  if (verb === "PRUNE" && given.length !== 1) return refused(sentence("rrset-one-record", { verb }));
  if (given.some(({ disabled }) => disabled)) return refused(sentence("rrset-disabled"));
  const meaningless = findMeaningless(given);
  if (meaningless) return refuse(meaningless);
  if (ONLY_ONE.has(rrset.type) && given.length > 1) return refused(sentence("rrset-only-one"));
  const rdatas = new Map<string, Uint8Array>();
  for (const { content } of given) {
    const rdata = readContent(rrset.type, content);
    if (!rdata.ok) return refused(rdata.error);
    const key = Buffer.from(rdata.value).toString("latin1");
    if (rdatas.has(key)) return refused(sentence("rrset-record-twice", { content }));
    rdatas.set(key, rdata.value);
  }
  return ok([...rdatas.values()]);
}

/** What programs of old ask for beside the content; what asks for nothing is taken. */
function findMeaningless(records: NonNullable<RrsetFields["records"]>): Refusal | undefined {
  if (records.some((record) => record["set-ptr"])) {
    return noMeaning("set-ptr", "PTR records are changed in their own zone");
  }
  const isOther = ({ content, priority }: (typeof records)[number]) =>
    Number(priority ?? 0) !== 0 && Number(priority) !== Number(content.trim().split(/\s+/, 1)[0]);
  return records.some(isOther) ? noMeaning("priority", "the priority is the first number of the content") : undefined;
}

const ONLY_ONE: ReadonlySet<number> = new Set([TYPE.SOA, TYPE.CNAME, TYPE.DNAME]);

/** A record's content; names in it are whole, and texts are in quotes. */
function readContent(type: number, content: string): Result<Uint8Array, Sentence> {
  const rdata = parseRdata(type, content, NOWHERE, "value");
  if (!rdata.ok) return refuse(sentence("rrset-content", { reason: rdataReason(rdata.error) }));
  if (isTextType(type) && !QUOTED_TEXTS.test(content)) {
    return refuse(sentence("rrset-content", { reason: sentence("texts-unquoted") }));
  }
  const isRelative = rdataNames(type, rdata.value).some(({ offset }) => {
    const name = domainNameFromWire(rdata.value, offset);
    return name.ok && isSubdomain(name.value, NOWHERE);
  });
  return isRelative ? refuse(sentence("rrset-not-absolute", { text: formatRdata(type, rdata.value) })) : rdata;
}

/** Quoted strings with white space between them, or the form of RFC 3597 §5: no other says where a text ends for all programs. */
const QUOTED_TEXTS = /^\s*(?:\\#\s.*|"[^"\\]*(?:\\.[^"\\]*)*"(?:\s+"[^"\\]*(?:\\.[^"\\]*)*")*\s*)$/s;

function readSoa({ owner, type, verb, ttl, rdatas }: RrsetChange): Result<WantedSoa, Refusal> {
  const [rdata] = rdatas;
  if (verb !== "replace" || !rdata || ttl === undefined) {
    return refuse(ofRrset({ owner, type }, sentence("rrset-no-record", { verb: verb.toUpperCase() })));
  }
  const soa = decodeSoaRdata(rdata);
  const problem = checkSoa(soa);
  return problem ? refuse(ofRrset({ owner, type }, problem)) : ok({ soa, ttl });
}

function readComments(comments: readonly z.output<typeof comment>[], now: Date): CommentChange["comments"] {
  return comments.map(({ content, account, modified_at }) => ({
    ...{ content, account },
    modifiedAt: modified_at === undefined ? now : new Date(modified_at * 1000),
  }));
}

function nameOf(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}
