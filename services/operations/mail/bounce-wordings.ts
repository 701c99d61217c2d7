import { setImmediate } from "node:timers/promises";
import { explainBounce, knownPhrases } from "../../core/mail/bounce/class.ts";
import { readOwnWording, shapeOfWords } from "../../core/mail/bounce/own-wording.ts";
import { type Phrase, type Phrases, withOwnPhrases } from "../../core/mail/bounce/phrases.ts";
import type { BounceReason } from "../../core/mail/bounce/reason.ts";
import { conflict, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  addWording,
  listWordings,
  readRecentInbound,
  readRefusals,
  readUnknownWords,
} from "../../store/mail/inbound/wordings.ts";
import { type Finding, interpret } from "./interpret.ts";

/** So many messages, and so many refusals in the session, are looked at. */
const NEWEST = 10_000;
const PAGE = 200;

/** Words that no table knows, by their shape. */
interface UnknownWording {
  readonly shape: string;
  readonly count: number;
  /** The newest words of this shape. */
  readonly sample: string;
  readonly latest: Date;
}

/** What nobody understood of the newest messages that came back and of refusals in the session; most often said first. */
export async function listUnknownWordings(db: Db): Promise<UnknownWording[]> {
  const phrases = await readPhrases(db);
  const said = [...(await readUnknownWords(db, NEWEST)), ...(await readRefusals(db, NEWEST))];
  const byShape = new Map<string, UnknownWording>();
  for (const [index, { words, receivedAt }] of said.entries()) {
    if (index % PAGE === 0) await setImmediate();
    if (explainBounce({ text: words }, phrases).by !== "code") continue;
    const shape = shapeOfWords(words);
    // Addresses and numbers alone are nothing that a wording could be made of.
    if (!/\p{L}/u.test(shape)) continue;
    const known = byShape.get(shape);
    const isNewer = !known || known.latest < receivedAt;
    const newest = isNewer ? { sample: words, latest: receivedAt } : { sample: known.sample, latest: known.latest };
    byShape.set(shape, { shape, count: (known?.count ?? 0) + 1, ...newest });
  }
  return [...byShape.values()].sort((left, right) => right.count - left.count);
}

/** What a wording would change. */
export interface WordingTrial {
  /** How many of the newest messages it was tried on. */
  readonly messages: number;
  /** In how many of them a failing system says it. */
  readonly matches: number;
  readonly changes: readonly WordingChange[];
}

/** So many recipients were judged otherwise without the wording. */
interface WordingChange {
  readonly from: BounceReason;
  readonly to: BounceReason;
  readonly count: number;
  /** Of these, whose address would count as dead, and did not. */
  readonly newlyHard: number;
}

/** Judges the newest messages with a wording and without it. Nothing is changed. */
export async function tryWording(db: Db, wording: Phrase): Promise<WordingTrial> {
  const own = await listWordings(db);
  const before = withOwnPhrases(own, knownPhrases);
  const watched = watch(withOwnPhrases([wording, ...own], knownPhrases), wording);
  const changes = new Map<string, WordingChange>();
  let messages = 0;
  let matches = 0;
  for await (const octets of recentMessages(db)) {
    messages += 1;
    const after = await interpret(octets, watched);
    if (!watched.takeSaid()) continue;
    matches += 1;
    for (const change of changesBetween(await interpret(octets, before), after)) {
      const key = `${change.from} ${change.to}`;
      const known = changes.get(key) ?? { ...change, count: 0, newlyHard: 0 };
      changes.set(key, { ...known, count: known.count + 1, newlyHard: known.newlyHard + change.newlyHard });
    }
  }
  return { messages, matches, changes: [...changes.values()].sort((left, right) => right.count - left.count) };
}

/** Checks a wording, tries it, and has it in force at once. */
export async function makeWording(
  db: Db,
  given: { readonly words: string; readonly reason: string; readonly command?: string | undefined },
  createdBy: string,
): Promise<Result<{ readonly id: number; readonly wording: Phrase; readonly trial: WordingTrial }, Refusal>> {
  const read = readOwnWording(given);
  if (!read.ok) return read;
  const trial = await tryWording(db, read.value);
  const id = await addWording(db, read.value, createdBy);
  return id === undefined ? refuse(conflict("wording-known")) : ok({ id, wording: read.value, trial });
}

/** What words mean: what operators say, then the tables. */
export async function readPhrases(db: Db): Promise<Phrases> {
  return withOwnPhrases(await listWordings(db), knownPhrases);
}

async function* recentMessages(db: Db): AsyncGenerator<Buffer> {
  let before: number | undefined;
  for (let read = 0; read < NEWEST; read += PAGE) {
    const page = await readRecentInbound(db, { before, limit: PAGE });
    for (const { octets } of page) yield octets;
    if (page.length < PAGE) return;
    before = page.at(-1)?.id;
    await setImmediate();
  }
}

interface Watched extends Phrases {
  /** Forgets whether the wording was found. @returns whether it was, since the last time */
  takeSaid(): boolean;
}

function watch(phrases: Phrases, { words }: Phrase): Watched {
  let said = false;
  return {
    longestIn(text, command) {
      const phrase = phrases.longestIn(text, command);
      said ||= phrase?.words === words;
      return phrase;
    },
    takeSaid() {
      const was = said;
      said = false;
      return was;
    },
  };
}

function changesBetween(before: Finding, after: Finding): WordingChange[] {
  return after.results.flatMap((result, index) => {
    const was = before.results[index];
    if (!was || (was.reason === result.reason && was.hard === result.hard)) return [];
    return [{ from: was.reason, to: result.reason, count: 1, newlyHard: result.hard && !was.hard ? 1 : 0 }];
  });
}
