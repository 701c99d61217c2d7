/** The numbers that a `$GENERATE` directive counts through. */
export interface GenerateRange {
  readonly start: number;
  readonly stop: number;
  readonly step: number;
}

/** BIND's bound on the numbers of a range. */
const MAX_NUMBER = 2 ** 31 - 1;

/** Reads `start-stop` or `start-stop/step`; undefined when it is neither. */
export function parseGenerateRange(text: string): GenerateRange | undefined {
  const match = /^(\d{1,10})-(\d{1,10})(?:\/(\d{1,10}))?$/.exec(text);
  if (match === null) return undefined;
  const [start, stop, step] = [Number(match[1]), Number(match[2]), Number(match[3] ?? 1)];
  return start <= stop && stop <= MAX_NUMBER && step >= 1 ? { start, stop, step } : undefined;
}

/** How many numbers the range has. */
export function rangeSize({ start, stop, step }: GenerateRange): number {
  return Math.floor((stop - start) / step) + 1;
}

/** Numbers of a range that follow each other: the first, the last, and how many there are. */
export interface GenerateSection {
  readonly first: number;
  readonly last: number;
  readonly count: number;
}

/** Parts a range into up to `most` sections of about the same size. */
export function sectionsOf(range: GenerateRange, most: number): GenerateSection[] {
  const size = rangeSize(range);
  const length = Math.ceil(size / most);
  const sections: GenerateSection[] = [];
  for (let begun = 0; begun < size; begun += length) {
    const count = Math.min(length, size - begun);
    const first = range.start + begun * range.step;
    sections.push({ first, last: first + (count - 1) * range.step, count });
  }
  return sections;
}

/** Whether each `${…}` of the text is well-formed and can be counted over the whole range. */
export function isTemplate(text: string, range: GenerateRange): boolean {
  for (const [, modifiers] of text.matchAll(PLACEHOLDERS)) {
    if (modifiers !== undefined && formatNumber(range.start, modifiers) === undefined) return false;
  }
  return true;
}

/**
 * Puts the number in place of each `$` and `${offset,width,base}` (base d, o, x, X, or n, N for reversed nibbles);
 * `$$` and `\$` stand for a dollar sign. The text is one that {@link isTemplate} passed.
 * @see BIND 9 Administrator Reference Manual, "The $GENERATE Directive"
 */
export function substituteNumber(template: string, number: number): string {
  return template.replace(PLACEHOLDERS, (part, modifiers: string | undefined) => {
    if (part.startsWith("\\")) return part;
    if (part === "$$") return "\\$";
    return modifiers === undefined ? String(number) : formatNumber(number, modifiers)!;
  });
}

const PLACEHOLDERS = /\\[\s\S]|\$\$|\$\{([^}]*)\}|\$/g;

function formatNumber(number: number, modifiers: string): string | undefined {
  const match = /^(-?\d{1,10})(?:,(\d{1,3})(?:,([doxXnN]))?)?$/.exec(modifiers);
  if (match === null) return undefined;
  const value = number + Number(match[1]);
  const width = Number(match[2] ?? 0);
  if (value < 0 || width > 255) return undefined;
  switch (match[3]) {
    case "o":
      return value.toString(8).padStart(width, "0");
    case "x":
      return value.toString(16).padStart(width, "0");
    case "X":
      return value.toString(16).toUpperCase().padStart(width, "0");
    case "n":
      return reversedNibbles(value.toString(16), width);
    case "N":
      return reversedNibbles(value.toString(16).toUpperCase(), width);
    default:
      return String(value).padStart(width, "0");
  }
}

/** Hexadecimal digits from the last to the first with dots between; the width counts the dots, so an even one ends in a dot. */
function reversedNibbles(digits: string, width: number): string {
  const nibbles = [...digits.padStart(Math.ceil(width / 2), "0")].reverse().join(".");
  return nibbles.padEnd(width, ".");
}
