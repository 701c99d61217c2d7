/** The most that a repetition may ask for (RE_DUP_MAX of POSIX). */
const MOST_REPETITIONS = 255;

/** The classes of characters that POSIX has in every locale. */
const CLASSES = "alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit";

/**
 * How many groups a text has as an extended regular expression of POSIX; undefined where it is none. In one, groups and
 * brackets end, ranges are in their order, something stands before each repetition and in each alternative, and there is no back
 * reference, which extended ones do not have. Name servers that compile it refuse the zone for one that is none.
 * @see POSIX.1-2017, volume 1, section 9.4
 */
export function countGroups(text: string): number | undefined {
  const parser = new Parser(text);
  return parser.isWhole() ? parser.groups : undefined;
}

const CLASS = new RegExp(`\\[:(?:${CLASSES}):\\]`, "y");

class Parser {
  readonly #text: string;
  #at = 0;
  groups = 0;

  constructor(text: string) {
    this.#text = text;
  }

  isWhole(): boolean {
    return this.#takeAlternatives(false) && this.#at === this.#text.length;
  }

  /** Up to the end, or to the parenthesis that closes the group. */
  #takeAlternatives(inGroup: boolean): boolean {
    do {
      if (!this.#takeBranch(inGroup)) return false;
    } while (this.#takes("|"));
    return true;
  }

  #takeBranch(inGroup: boolean): boolean {
    const start = this.#at;
    while (this.#at < this.#text.length && !this.#isNext("|") && !(inGroup && this.#isNext(")"))) {
      if (this.#takes("^") || this.#takes("$")) continue;
      if (!this.#takeAtom() || !this.#takeRepetition()) return false;
    }
    return this.#at > start;
  }

  #takeAtom(): boolean {
    if (this.#takes("(")) {
      this.groups += 1;
      return this.#takeAlternatives(true) && this.#takes(")");
    }
    if (this.#takes("[")) return this.#takeBracket();
    if (this.#takes("\\")) return this.#takePattern(/[^\0\d]/y) !== undefined;
    return this.#takePattern(/[^\0*+?{)]/y) !== undefined;
  }

  /** One at most: of two, what they mean is not said. */
  #takeRepetition(): boolean {
    if (this.#takePattern(/[*+?]/y) !== undefined) return true;
    if (!this.#isNext("{")) return true;
    const [, least, , most] = this.#takePattern(/\{(\d{1,3})(,(\d{0,3}))?\}/y) ?? [];
    if (least === undefined) return false;
    const [from, to] = [Number(least), most ? Number(most) : Number(least)];
    return from <= to && to <= MOST_REPETITIONS;
  }

  #takeBracket(): boolean {
    this.#takes("^");
    for (let isFirst = true; isFirst || !this.#takes("]"); isFirst = false) {
      if (!this.#takeElement()) return false;
    }
    return true;
  }

  /** A class, a character, or a range of characters, whose end begins no other one. */
  #takeElement(): boolean {
    if (this.#takePattern(CLASS) !== undefined) return !this.#isNext("-") || this.#text[this.#at + 1] === "]";
    const from = this.#takePattern(/[^\0]/y)?.[0];
    // Collating elements are other ones in every locale.
    if (from === undefined || (from === "[" && /[:.=]/.test(this.#text[this.#at] ?? ""))) return false;
    const to = this.#takePattern(/-([^\0\]])/y)?.[1];
    return to === undefined || (from <= to && to !== "[" && !this.#isNext("-"));
  }

  #isNext(character: string): boolean {
    return this.#text[this.#at] === character;
  }

  #takes(character: string): boolean {
    if (!this.#isNext(character)) return false;
    this.#at += 1;
    return true;
  }

  #takePattern(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#at = pattern.lastIndex;
    return match;
  }
}
