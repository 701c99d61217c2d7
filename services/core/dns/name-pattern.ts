import { ok, type Result, refuse } from "../result.ts";
import { sentence } from "../sentences.ts";
import { type DomainName, formatDomainName, MAX_NAME_OCTETS, nameFromLabels, parseDomainName } from "./name.ts";
import type { NameError } from "./name-error.ts";

/** A label: an exact one, in lower case with a character for each octet; any one (`*`); or any number of them, even none (`**`). */
export type PatternLabel = { readonly label: string } | { readonly wild: "*" | "**" };

/** Names from the first label to the one below the root. Plain data. */
export type NamePattern = readonly PatternLabel[];

/**
 * Reads a pattern of whole names: labels parted by dots, the final dot as one likes, `*` for any one label, `**` for any
 * number of them; `\*` is the label of a wildcard itself (RFC 4592).
 * @example `_acme-challenge.**` is that label before any name, `*.example.org` all names one label below it
 */
export function readPattern(text: string): Result<NamePattern, NameError> {
  const parts = text.match(/(?:\\.|[^.])+|\./gs) ?? [];
  const pattern: PatternLabel[] = [];
  let isAfterLabel = false;
  for (const part of parts) {
    if (part === ".") {
      if (!isAfterLabel) return refuse(sentence(text === "." ? "pattern-of-root" : "empty-label"));
      isAfterLabel = false;
      continue;
    }
    isAfterLabel = true;
    const label = readLabel(part);
    if (!label.ok) return label;
    pattern.push(label.value);
  }
  if (pattern.length === 0) return refuse(sentence("name-empty"));
  return leastOctets(pattern) > MAX_NAME_OCTETS
    ? refuse(sentence("name-too-long", { most: MAX_NAME_OCTETS }))
    : ok(pattern);
}

/** As {@link readPattern} reads it, in lower case and without the final dot. */
export function formatPattern(pattern: NamePattern): string {
  return pattern.map((part) => ("wild" in part ? part.wild : formatLabel(part.label))).join(".");
}

/** Whether a name is one of the pattern's, ASCII case aside. */
export function matchesPattern(pattern: NamePattern, name: DomainName): boolean {
  const labels = labelsInLowerCase(name);
  let at = 0;
  let next = 0;
  // Where the last `**` stands, and the label up to which it reaches: only it needs to be tried again.
  let anyAt = -1;
  let reached = 0;
  while (at < labels.length) {
    const part = pattern[next];
    if (isAnyNumber(part)) {
      anyAt = next;
      reached = at;
      next += 1;
    } else if (part && ("wild" in part || part.label === labels[at])) {
      at += 1;
      next += 1;
    } else if (anyAt >= 0) {
      reached += 1;
      at = reached;
      next = anyAt + 1;
    } else return false;
  }
  return pattern.slice(next).every(isAnyNumber);
}

/** Octets, in wire form, of the shortest name that both patterns have; infinite when they have none in common. */
export function leastOctetsOfBoth(a: NamePattern, b: NamePattern): number {
  let [aLength, bLength, octets] = [a.length, b.length, 0];
  // Up to the last `**` of either, labels from the end stand for one another: most patterns differ there.
  for (; aLength > 0 && bLength > 0; aLength -= 1, bLength -= 1) {
    const [one, other] = [a[aLength - 1]!, b[bLength - 1]!];
    if (isAnyNumber(one) || isAnyNumber(other)) break;
    octets += leastOfBoth(weigh(one), weigh(other));
    if (octets === Number.POSITIVE_INFINITY) return octets;
  }
  return octets + leastOctetsOfHeads(a.slice(0, aLength), b.slice(0, bLength));
}

/** As {@link leastOctetsOfBoth}, by what each rest of `a` and each rest of `b` take together. */
function leastOctetsOfHeads(a: NamePattern, b: NamePattern): number {
  const columns = b.map(weigh);
  const end = columns.length;
  const anyAtEnd = columns.findLastIndex(({ isAny }) => !isAny) + 1;
  let below = Float64Array.from({ length: end + 1 }, (_, j) => (j >= anyAtEnd ? 1 : Number.POSITIVE_INFINITY));
  for (const one of a.map(weigh).reverse()) {
    const row = new Float64Array(end + 1);
    row[end] = one.isAny ? below[end]! : Number.POSITIVE_INFINITY;
    for (let j = end - 1; j >= 0; j -= 1) {
      const other = columns[j]!;
      // `**` stands for nothing more, or takes the label that the other one wants.
      if (one.isAny) row[j] = Math.min(below[j]!, other.octets + row[j + 1]!);
      else if (other.isAny) row[j] = Math.min(row[j + 1]!, one.octets + below[j]!);
      else row[j] = leastOfBoth(one, other) + below[j + 1]!;
    }
    below = row;
  }
  return below[0]!;
}

/** A label of a pattern, ready to be compared often. */
interface WeighedLabel {
  /** Undefined for any one, and any number. */
  readonly label: string | undefined;
  readonly octets: number;
  readonly isAny: boolean;
}

function weigh(part: PatternLabel): WeighedLabel {
  return { label: "label" in part ? part.label : undefined, octets: octetsOf(part), isAny: isAnyNumber(part) };
}

/** Octets of the shortest label that is both. */
function leastOfBoth(one: WeighedLabel, other: WeighedLabel): number {
  const isSame = one.label === undefined || other.label === undefined || one.label === other.label;
  return isSame ? Math.max(one.octets, other.octets) : Number.POSITIVE_INFINITY;
}

function isAnyNumber(part: PatternLabel | undefined): boolean {
  return part !== undefined && "wild" in part && part.wild === "**";
}

/** Octets of the shortest label, its length octet included. */
function octetsOf(part: PatternLabel): number {
  if ("label" in part) return part.label.length + 1;
  return part.wild === "*" ? 2 : 0;
}

function leastOctets(pattern: NamePattern): number {
  return pattern.reduce((sum, part) => sum + octetsOf(part), 1);
}

function readLabel(text: string): Result<PatternLabel, NameError> {
  if (text === "*" || text === "**") return ok({ wild: text });
  if (text === "@") return refuse(sentence("pattern-not-whole"));
  if (/(?<!\\)(?:\\\\)*\*/.test(text)) return refuse(sentence("pattern-within-label"));
  const name = parseDomainName(text);
  if (!name.ok) return name;
  const [label, ...others] = labelsInLowerCase(name.value);
  return label === undefined || others.length > 0 ? refuse(sentence("pattern-not-whole")) : ok({ label });
}

function labelsInLowerCase({ key }: DomainName): string[] {
  const labels: string[] = [];
  for (let position = 0; key.charCodeAt(position) > 0; position += key.charCodeAt(position) + 1) {
    labels.push(key.slice(position + 1, position + 1 + key.charCodeAt(position)));
  }
  return labels;
}

function formatLabel(label: string): string {
  const name = nameFromLabels([Buffer.from(label, "latin1")]);
  if (!name.ok) throw new Error(`a pattern has a label that is none: ${name.error.message}`);
  return formatDomainName(name.value).slice(0, -1).replaceAll("*", "\\*");
}
