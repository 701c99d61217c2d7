import { ok, type Result, refuse } from "../result.ts";
import { sentence } from "../sentences.ts";
import { MAX_NAME_CHARACTERS, MAX_NAME_OCTETS, NON_ASCII, toAscii } from "./a-labels.ts";
import type { NameError } from "./name-error.ts";
import { BAD_ESCAPE, readEscape } from "./octet-text.ts";

export { MAX_NAME_OCTETS, toAscii } from "./a-labels.ts";

/** Longest label (RFC 1035 §2.3.4). */
export const MAX_LABEL_OCTETS = 63;

/**
 * A domain name: a sequence of labels, each of 1 to 63 octets of any value, 255 octets in all.
 * Case is preserved; comparison is by {@link DomainName.key}.
 * @see RFC 1035 §3.1, RFC 2181 §11, RFC 4343
 */
export class DomainName {
  /** Uncompressed wire form, case preserved, ending with the root's zero octet. */
  readonly wire: Uint8Array;
  /** The wire form with ASCII letters in lower case, one character per octet: equal names have equal keys. */
  readonly key: string;
  /** Number of labels without the root's. */
  readonly labelCount: number;

  /** For the functions of this module: `wire` must be a whole, valid name that nobody changes any more. */
  constructor(wire: Uint8Array, labelCount: number) {
    this.wire = wire;
    this.key = lowerCaseKey(wire);
    this.labelCount = labelCount;
  }
}

/** The root of the name space, `.`. */
export const ROOT = new DomainName(new Uint8Array(1), 0);

/**
 * Reads a name in presentation format: `\.` and `\DDD` escapes, `@` for the origin, a name without a final dot
 * is relative to the origin, or absolute when there is none. U-labels become A-labels.
 * @see RFC 1035 §5.1
 */
export function parseDomainName(text: string, origin?: DomainName): Result<DomainName, NameError> {
  if (text === "@" && origin !== undefined) return ok(origin);
  if (text === ".") return ok(ROOT);
  if (text === "") return refuse(sentence("name-empty"));
  if (text.length > MAX_NAME_CHARACTERS) return refuse(TOO_LONG);
  if (NON_ASCII.test(text)) {
    const ascii = toAscii(text);
    return ascii.ok ? parseAsciiName(ascii.value, origin) : ascii;
  }
  return parseAsciiName(text, origin);
}

/**
 * Reads an uncompressed name that starts at `offset`; octets after its root are left alone.
 * Compressed names are read by `WireReader`, which has the whole message.
 */
export function domainNameFromWire(octets: Uint8Array, offset = 0): Result<DomainName, NameError> {
  let position = offset;
  let labelCount = 0;
  for (;;) {
    const length = octets[position];
    if (length === undefined) return refuse(sentence("name-cut-off"));
    if (length > MAX_LABEL_OCTETS) return refuse(sentence("label-length", { octets: length }));
    position += length + 1;
    if (position - offset > MAX_NAME_OCTETS) return refuse(TOO_LONG);
    if (length === 0) break;
    labelCount += 1;
  }
  return ok(labelCount === 0 ? ROOT : new DomainName(new Uint8Array(octets.subarray(offset, position)), labelCount));
}

/**
 * The name whose wire form we ourselves encoded before, such as one out of the database.
 * @throws when the octets are no name: the store is corrupt
 */
export function nameFromStoredWire(octets: Uint8Array): DomainName {
  const name = domainNameFromWire(octets);
  if (!name.ok) throw new Error(`stored name is corrupt: ${name.error.message}`);
  return name.value;
}

/** As {@link nameFromStoredWire}, of a name that was stored in presentation format. */
export function nameFromStoredText(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(`stored name ${text} is corrupt: ${name.error.message}`);
  return name.value;
}

/** Presentation format, absolute with the final dot, with escapes where a master file needs them. */
export function formatDomainName(name: DomainName): string {
  return name.labelCount === 0 ? "." : formatLabels(name, name.labelCount);
}

/** Presentation format relative to the apex: `@`, a relative name, or an absolute one where it is not below. */
export function formatRelative(name: DomainName, apex: DomainName): string {
  if (!isSubdomain(name, apex)) return formatDomainName(name);
  if (name.labelCount === apex.labelCount) return "@";
  if (apex.labelCount === 0) return formatDomainName(name);
  return formatLabels(name, name.labelCount - apex.labelCount).slice(0, -1);
}

/**
 * A name in presentation format as every reader of master files takes it: Knot wants a backslash before each character
 * that no host name, wildcard or service has, not only where RFC 1035 §5.1 gives it a meaning. BIND takes `\[` for the
 * start of a bit string, NSD and Knot `\#` for that of generic data: these two stand as `\DDD`.
 */
export function portableName(text: string): string {
  return text.replace(/\\.|[!#%&'+,:<=>?[\]^`{|}~]/g, (part) => {
    if (part.length > 1) return part;
    return part === "[" || part === "#" ? `\\0${part.charCodeAt(0)}` : `\\${part}`;
  });
}

/** Whether two names are the same, ASCII case aside (RFC 4343). */
export function sameName(a: DomainName, b: DomainName): boolean {
  return a.key === b.key;
}

/** Whether the name is the ancestor itself or below it. */
export function isSubdomain(name: DomainName, ancestor: DomainName): boolean {
  const labelsBelow = name.labelCount - ancestor.labelCount;
  if (labelsBelow < 0) return false;
  return (
    name.key.length - ancestor.key.length === skipLabels(name.wire, labelsBelow) && name.key.endsWith(ancestor.key)
  );
}

/** The name without its first label; undefined for the root. */
export function parentOf(name: DomainName): DomainName | undefined {
  return name.labelCount === 0 ? undefined : ancestorOf(name, name.labelCount - 1);
}

/**
 * The name itself and those above it, the closest first.
 * @param end a name above it, which is left out: the root unless given
 */
export function withAncestors(name: DomainName, end: DomainName = ROOT): DomainName[] {
  return Array.from({ length: name.labelCount - end.labelCount }, (_, above) =>
    ancestorOf(name, name.labelCount - above),
  );
}

/** The ancestor that has `labelCount` labels: the name itself when it has that many. */
export function ancestorOf(name: DomainName, labelCount: number): DomainName {
  if (labelCount >= name.labelCount) return name;
  if (labelCount <= 0) return ROOT;
  return new DomainName(name.wire.subarray(skipLabels(name.wire, name.labelCount - labelCount)), labelCount);
}

/** The labels' octets from the first to the one below the root. */
export function labelsOf(name: DomainName): Uint8Array[] {
  const labels: Uint8Array[] = [];
  for (let position = 0; name.wire[position]! > 0; position += name.wire[position]! + 1) {
    labels.push(name.wire.subarray(position + 1, position + 1 + name.wire[position]!));
  }
  return labels;
}

/** The name of these labels, first label first; refuses empty and over-long labels and names. */
export function nameFromLabels(labels: readonly Uint8Array[]): Result<DomainName, NameError> {
  const wire = new Uint8Array(labels.reduce((octets, label) => octets + label.length + 1, 1));
  let position = 0;
  for (const label of labels) {
    wire[position] = label.length;
    if (label.length === 0 || label.length > MAX_LABEL_OCTETS) return refuse(labelLengthError(label.length));
    wire.set(label, position + 1);
    position += label.length + 1;
  }
  return wire.length > MAX_NAME_OCTETS ? refuse(TOO_LONG) : ok(new DomainName(wire, labels.length));
}

/** Whether the first label is a single asterisk (RFC 4592 §2.1.1). */
export function isWildcard(name: DomainName): boolean {
  return name.wire[0] === 1 && name.wire[1] === ASTERISK;
}

/**
 * Octets whose plain comparison is canonical order (RFC 4034 §6.1): labels from the root down, ASCII letters in
 * lower case, each label ended by a zero octet, which therefore sorts first; inside labels 0x00 becomes 01 01 and
 * 0x01 becomes 01 02.
 * @param wire a whole uncompressed name
 */
export function nameSortKey(wire: Uint8Array): Uint8Array {
  const labelStarts: number[] = [];
  for (let position = 0; wire[position]! > 0; position += wire[position]! + 1) labelStarts.push(position);
  // Every octet may double; a label's length octet makes room for its end mark.
  const sortKey = new Uint8Array(2 * wire.length);
  let written = 0;
  for (let index = labelStarts.length - 1; index >= 0; index -= 1) {
    const start = labelStarts[index]!;
    const end = start + 1 + wire[start]!;
    for (let position = start + 1; position < end; position += 1) {
      const octet = lowerCaseOctet(wire[position]!);
      if (octet <= 1) {
        sortKey[written++] = 1;
        sortKey[written++] = octet + 1;
      } else {
        sortKey[written++] = octet;
      }
    }
    sortKey[written++] = 0;
  }
  return sortKey.subarray(0, written);
}

const ASTERISK = 0x2a;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const SPACE = 0x20;
const DELETE = 0x7f;
const TOO_LONG: NameError = sentence("name-too-long", { most: MAX_NAME_OCTETS });

function labelLengthError(length: number): NameError {
  return length === 0 ? sentence("empty-label") : sentence("label-too-long", { most: MAX_LABEL_OCTETS });
}

function parseAsciiName(text: string, origin: DomainName | undefined): Result<DomainName, NameError> {
  const wire = new Uint8Array(text.length + 2 + (origin?.wire.length ?? 0));
  let labelStart = 0;
  let written = 1;
  let labelCount = 0;
  let absolute = false;
  for (let position = 0; position < text.length; position += 1) {
    const code = text.charCodeAt(position);
    if (code === DOT) {
      const length = written - labelStart - 1;
      if (length === 0 || length > MAX_LABEL_OCTETS) return refuse(labelLengthError(length));
      wire[labelStart] = length;
      labelCount += 1;
      labelStart = written;
      written += 1;
      absolute = position === text.length - 1;
    } else if (code === BACKSLASH) {
      const escaped = readEscape(text, position);
      if (escaped === undefined) return refuse(BAD_ESCAPE);
      wire[written++] = escaped.octet;
      position += escaped.length - 1;
    } else if (code <= SPACE || code === DELETE) {
      return refuse(sentence("blank-in-name"));
    } else {
      wire[written++] = code;
    }
  }
  if (absolute) return finishName(wire, labelStart + 1, labelCount);
  const length = written - labelStart - 1;
  if (length > MAX_LABEL_OCTETS) return refuse(labelLengthError(length));
  wire[labelStart] = length;
  labelCount += 1;
  if (origin === undefined) return finishName(wire, written + 1, labelCount);
  wire.set(origin.wire, written);
  return finishName(wire, written + origin.wire.length, labelCount + origin.labelCount);
}

function finishName(wire: Uint8Array, length: number, labelCount: number): Result<DomainName, NameError> {
  if (length > MAX_NAME_OCTETS) return refuse(TOO_LONG);
  return ok(new DomainName(wire.slice(0, length), labelCount));
}

function lowerCaseOctet(octet: number): number {
  return octet >= 0x41 && octet <= 0x5a ? octet + 0x20 : octet;
}

function lowerCaseKey(wire: Uint8Array): string {
  const lower = Buffer.allocUnsafe(wire.length);
  // Length octets are at most 63 and so never in the range of the letters.
  for (let position = 0; position < wire.length; position += 1) lower[position] = lowerCaseOctet(wire[position]!);
  return lower.toString("latin1");
}

function skipLabels(wire: Uint8Array, count: number): number {
  let position = 0;
  for (let skipped = 0; skipped < count; skipped += 1) position += wire[position]! + 1;
  return position;
}

function formatLabels(name: DomainName, count: number): string {
  let text = "";
  let position = 0;
  for (let index = 0; index < count; index += 1) {
    const end = position + 1 + name.wire[position]!;
    for (position += 1; position < end; position += 1) text += LABEL_OCTET_TEXT[name.wire[position]!];
    text += ".";
  }
  return text;
}

/** How each octet stands in a label: plain, behind a backslash where a master file gives it a meaning, or as `\DDD`. */
const LABEL_OCTET_TEXT: readonly string[] = Array.from({ length: 256 }, (_, octet) => {
  const character = String.fromCharCode(octet);
  if ('.\\"();@$'.includes(character)) return `\\${character}`;
  return octet > 0x20 && octet < 0x7f ? character : `\\${String(octet).padStart(3, "0")}`;
});
