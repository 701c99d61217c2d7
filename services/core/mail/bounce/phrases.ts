import type { BounceReason, SmtpCommand } from "./reason.ts";

/**
 * A wording of one mail system. `words` are meant literally, in lower case with single blanks; `*` stands for at most
 * {@link MAX_GAP} characters. `at`: they mean this only in a reply to that command.
 */
export interface Phrase {
  readonly reason: BounceReason;
  readonly words: string;
  readonly at?: SmtpCommand | undefined;
}

interface IndexedPhrase extends WeighedPhrase {
  /** What is given, in order; between any two of them lies a gap. */
  readonly parts: readonly string[];
}

/** A code of a provider (`aup#1260`, `[cs01]`, `(s3140)`), which says more than the words around it. */
const CODE = /^(?=.*\d)[^\s]{4,}$/;
/** From this weight on a phrase decides alone: it is a provider's code, or an operator's own. */
export const CODE_WEIGHT = 1000;

const MAX_GAP = 80;

/** Phrases to look for in a text. */
export interface Phrases {
  /** @param text as `comparable` makes it */
  longestIn(text: string, command: SmtpCommand | undefined): WeighedPhrase | undefined;
}

interface WeighedPhrase extends Phrase {
  /** Characters that are given: the more, the less likely the words say something else. A code outweighs all words. */
  readonly weight: number;
}

/**
 * Phrases by the rarest of their words, so that a text costs what its own words cost, however many phrases there are.
 * Of those that a text holds the longest counts: tables of different origin need no order among them.
 */
export class PhraseTable implements Phrases {
  readonly #phrases: () => readonly Phrase[];
  #index: PhraseIndex | undefined;

  /** @param phrases asked for with the first text: most processes that could read a bounce read none */
  constructor(phrases: () => readonly Phrase[]) {
    this.#phrases = phrases;
  }

  longestIn(text: string, command: SmtpCommand | undefined): WeighedPhrase | undefined {
    let longest: IndexedPhrase | undefined;
    for (const phrase of this.candidates(text)) {
      if (phrase.weight <= (longest?.weight ?? 0) || (phrase.at && phrase.at !== command)) continue;
      if (holds(text, phrase.parts)) longest = phrase;
    }
    return longest;
  }

  private *candidates(text: string): Generator<IndexedPhrase> {
    this.#index ??= indexPhrases(this.#phrases());
    for (const word of new Set(text.match(WORD))) yield* this.#index.byWord.get(word) ?? [];
    yield* this.#index.withoutWord;
  }
}

interface PhraseIndex {
  /** By the rarest word that a text must hold. */
  readonly byWord: ReadonlyMap<string, readonly IndexedPhrase[]>;
  /** Those of scripts that are written without blanks. */
  readonly withoutWord: readonly IndexedPhrase[];
}

function indexPhrases(phrases: readonly Phrase[]): PhraseIndex {
  const uses = new Map<string, number>();
  for (const { words } of phrases) for (const word of wholeWords(words)) uses.set(word, (uses.get(word) ?? 0) + 1);
  const rarity = (word: string) => (uses.get(word) ?? 0) - word.length / 100;
  const byWord = new Map<string, IndexedPhrase[]>();
  const withoutWord: IndexedPhrase[] = [];
  for (const phrase of phrases) {
    const [rarest] = wholeWords(phrase.words).sort((left, right) => rarity(left) - rarity(right));
    const parts = phrase.words.split("*").filter(Boolean);
    const weight = parts.join("").length + (CODE.test(phrase.words) ? CODE_WEIGHT : 0);
    const indexed = { ...phrase, parts, weight };
    if (rarest === undefined) withoutWord.push(indexed);
    else byWord.set(rarest, [...(byWord.get(rarest) ?? []), indexed]);
  }
  return { byWord, withoutWord };
}

/** An operator's wordings before those that everybody has: they are certain, however short, and outweigh every other. */
export function withOwnPhrases(own: readonly Phrase[], known: Phrases): Phrases {
  if (own.length === 0) return known;
  const table = new PhraseTable(() => own);
  return {
    longestIn(text, command) {
      const phrase = table.longestIn(text, command);
      return phrase ? { ...phrase, weight: phrase.weight + CODE_WEIGHT } : known.longestIn(text, command);
    },
  };
}

const WORD = /[\p{L}\p{N}]+/gu;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]/u;

/** The words that a text must hold to hold the phrase: none that `*` may continue, nor of a script without blanks. */
function wholeWords(phrase: string): string[] {
  const words = [...phrase.matchAll(WORD)].filter(({ 0: word, index }) => {
    return phrase[index - 1] !== "*" && phrase[index + word.length] !== "*" && !UNSPACED.test(word);
  });
  return words.map(([word]) => word);
}

/** Linear in the text: the parts are looked for one after another, with every place where what came before may end. */
function holds(text: string, parts: readonly string[]): boolean {
  let ends: number[] | undefined;
  for (const [index, part] of parts.entries()) {
    const reached: number[] = [];
    let candidate = 0;
    for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) {
      const end = at + part.length;
      while (ends && ends[candidate]! + MAX_GAP < at) candidate++;
      const follows = ends ? ends[candidate]! <= at : !continues(text, at);
      if (follows && (index < parts.length - 1 || !continues(text, end))) reached.push(end);
    }
    if (reached.length === 0) return false;
    ends = reached;
  }
  return true;
}

/** Whether a word goes on over a place, in a script that parts its words. */
function continues(text: string, at: number): boolean {
  const [before = " ", after = " "] = [text[at - 1], text[at]];
  return LETTER.test(before) && LETTER.test(after) && !UNSPACED.test(before) && !UNSPACED.test(after);
}

const LETTER = /[\p{L}\p{N}]/u;
