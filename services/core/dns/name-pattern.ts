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
    if (part && "wild" in part && part.wild === "**") {
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
  return pattern.slice(next).every((part) => "wild" in part && part.wild === "**");
}

/** Octets, in wire form, of the shortest name that both patterns have; infinite when they have none in common. */
export function leastOctetsOfBoth(a: NamePattern, b: NamePattern): number {
  // From the end: what the rest of `a` and the rest of `b` take together.
  let below = new Array<number>(b.length + 1).fill(Number.POSITIVE_INFINITY);
  for (let i = a.length; i >= 0; i -= 1) {
    const row = new Array<number>(b.length + 1).fill(Number.POSITIVE_INFINITY);
    for (let j = b.length; j >= 0; j -= 1) {
      row[j] = leastFrom(a[i], b[j], {
        neither: below[j + 1],
        notA: below[j],
        notB: row[j + 1],
        isEnd: i === a.length && j === b.length,
      });
    }
    below = row;
  }
  return below[0]!;
}

/** What is left of two patterns takes, by what is left of them when one or both have gone on by a label. */
function leastFrom(
  a: PatternLabel | undefined,
  b: PatternLabel | undefined,
  rest: {
    readonly neither: number | undefined;
    readonly notA: number | undefined;
    readonly notB: number | undefined;
    readonly isEnd: boolean;
  },
): number {
  if (rest.isEnd) return 1;
  const isAny = (part: PatternLabel | undefined) => part !== undefined && "wild" in part && part.wild === "**";
  const ways = [Number.POSITIVE_INFINITY];
  // `**` stands for nothing more, or takes the label that the other one wants.
  if (isAny(a)) ways.push(rest.notA ?? Number.POSITIVE_INFINITY);
  if (isAny(b)) ways.push(rest.notB ?? Number.POSITIVE_INFINITY);
  if (a && b) {
    if (isAny(a) && !isAny(b)) ways.push(octetsOf(b) + (rest.notB ?? Number.POSITIVE_INFINITY));
    else if (isAny(b) && !isAny(a)) ways.push(octetsOf(a) + (rest.notA ?? Number.POSITIVE_INFINITY));
    else if (!isAny(a)) ways.push(octetsOfSame(a, b) + (rest.neither ?? Number.POSITIVE_INFINITY));
  }
  return Math.min(...ways);
}

function octetsOfSame(a: PatternLabel, b: PatternLabel): number {
  if ("wild" in a) return octetsOf(b);
  return "wild" in b || a.label === b.label ? octetsOf(a) : Number.POSITIVE_INFINITY;
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
