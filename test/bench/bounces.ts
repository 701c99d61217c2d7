/**
 * `npm run bench:bounces -- <folder>`: how well bounces are understood, on labelled messages, and how fast.
 *
 * The folder holds `emails/`, a message a file, and `expected.json`: an array of
 * `{file, kind, recipients, recipient_aliases, results?, action, reason, hard, disputed}`, what is null is not scored.
 * Every table of `config/bounces/systems/` is left out once: what the messages that it speaks in then score is what
 * a mail system scores that nobody described. A table that is fitted to messages shows by the difference.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { knownPhrases } from "../../services/core/mail/bounce/class.ts";
import { type Phrases, PhraseTable } from "../../services/core/mail/bounce/phrases.ts";
import { readSystemPhrases } from "../../services/core/mail/bounce/rules.ts";
import { type BounceResult, type Finding, interpret } from "../../services/operations/mail/interpret.ts";

interface Expected {
  readonly file: string;
  readonly kind: string;
  readonly accept_kinds?: readonly string[];
  readonly recipients: readonly string[];
  readonly recipient_aliases: readonly string[];
  readonly recipients_unscored?: boolean;
  readonly results?: readonly ExpectedResult[];
  readonly action: string | null;
  readonly reason: string | null;
  readonly hard: boolean | null;
  readonly disputed?: boolean;
}

interface ExpectedResult {
  readonly recipient?: string;
  readonly action: string | null;
  readonly reason: string | null;
  readonly hard: boolean | null;
}

const MEASURES = ["kind", "recipients", "action", "hard", "false hard", "reason"] as const;
type Measure = (typeof MEASURES)[number];
type Score = Record<Measure, { right: number; of: number }>;

interface Labelled {
  readonly expected: Expected;
  readonly octets: Buffer;
}

const systemsOf = new Map<string, string[]>();
const systemPhrases = readSystemPhrases();
for (const [name, phrases] of systemPhrases) {
  for (const { words } of phrases) systemsOf.set(words, [...(systemsOf.get(words) ?? []), name]);
}

const ROUNDS = 9;

const folder = process.argv[2];
if (!folder) {
  process.stderr.write("give the folder of the labelled messages: npm run bench:bounces -- <folder>\n");
  process.exit(2);
}
await bench(readMessages(folder));

async function bench(messages: readonly Labelled[]): Promise<void> {
  const speakers = new Map<string, Labelled[]>();
  const whole = emptyScore();
  for (const message of messages) {
    const heard = listeningTo(knownPhrases);
    score(whole, message.expected, await interpret(message.octets, heard.phrases));
    for (const system of heard.systems()) speakers.set(system, [...(speakers.get(system) ?? []), message]);
  }
  print("all tables", messages.length, whole);
  const unseen = emptyScore();
  let counted = 0;
  for (const [system, spokenIn] of [...speakers].sort(([, left], [, right]) => right.length - left.length)) {
    const others = new PhraseTable(() =>
      [...systemPhrases].flatMap(([name, phrases]) => (name === system ? [] : phrases)),
    );
    const [withTable, without] = [emptyScore(), emptyScore()];
    for (const { octets, expected } of spokenIn) {
      score(withTable, expected, await interpret(octets));
      const finding = await interpret(octets, others);
      score(without, expected, finding);
      score(unseen, expected, finding);
    }
    counted += spokenIn.length;
    print(system, spokenIn.length, withTable);
    print("  left out", spokenIn.length, without);
  }
  print("each without the table that speaks in it", counted, unseen);
  await measureSpeed(messages);
}

/** Processor time alone: what else the machine does does not count. */
async function measureSpeed(messages: readonly Labelled[]): Promise<void> {
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const begun = process.cpuUsage();
    for (const { octets } of messages) await interpret(octets);
    const { user, system } = process.cpuUsage(begun);
    rates.push(messages.length / ((user + system) / 1e6));
  }
  const median = rates.sort((left, right) => left - right)[Math.floor(ROUNDS / 2)] ?? 0;
  process.stdout.write(`${Math.round(median)} messages a second of processor time, median of ${ROUNDS} rounds\n`);
}

function listeningTo(phrases: Phrases): { readonly phrases: Phrases; systems(): ReadonlySet<string> } {
  const systems = new Set<string>();
  return {
    phrases: {
      longestIn(text, command) {
        const phrase = phrases.longestIn(text, command);
        if (phrase) for (const name of systemsOf.get(phrase.words) ?? []) systems.add(name);
        return phrase;
      },
    },
    systems: () => systems,
  };
}

function score(into: Score, expected: Expected, finding: Finding): void {
  count(into.kind, finding.kind === expected.kind || (expected.accept_kinds ?? []).includes(finding.kind));
  if ((expected.kind === "dsn" || expected.kind === "arf") && !expected.recipients_unscored) {
    count(into.recipients, hasRecipients(expected, finding));
  }
  if (expected.kind !== "dsn") return;
  const { recipients, action, reason, hard } = expected;
  const [recipient] = recipients;
  const wanted = expected.results ?? [{ ...(recipient === undefined ? {} : { recipient }), action, reason, hard }];
  for (const [index, one] of wanted.entries()) {
    const named = finding.results.find((result) => normal(result.recipient) === one.recipient);
    scoreResult(into, one, named ?? finding.results[index], expected.disputed === true);
  }
}

function scoreResult(into: Score, wanted: ExpectedResult, found: BounceResult | undefined, disputed: boolean): void {
  if (wanted.action) count(into.action, found?.action === wanted.action);
  if (disputed) return;
  if (typeof wanted.hard === "boolean" && wanted.reason !== "delivered") {
    count(into.hard, (found?.hard ?? false) === wanted.hard);
    if (!wanted.hard) count(into["false hard"], found?.hard === true);
  }
  if (wanted.reason && wanted.reason !== "undefined" && wanted.reason !== "onhold") {
    count(into.reason, found?.reason === wanted.reason);
  }
}

function hasRecipients({ recipients, recipient_aliases }: Expected, { results }: Finding): boolean {
  const found = new Set(results.map(({ recipient }) => normal(recipient)).filter((recipient) => recipient !== ""));
  const allowed = new Set([...recipients, ...recipient_aliases]);
  return found.size === new Set(recipients).size && [...found].every((recipient) => allowed.has(recipient));
}

function normal(recipient: string): string {
  return recipient.toLowerCase().replace(/^[<>\s]+|[<>\s]+$/g, "");
}

function count(measure: { right: number; of: number }, isRight: boolean): void {
  measure.right += isRight ? 1 : 0;
  measure.of += 1;
}

function emptyScore(): Score {
  return Object.fromEntries(MEASURES.map((measure) => [measure, { right: 0, of: 0 }])) as Score;
}

function print(name: string, messages: number, scored: Score): void {
  const figures = MEASURES.map((measure) => {
    const { right, of } = scored[measure];
    const share = measure === "false hard" ? `${right}/${of}` : `${of === 0 ? "-" : ((100 * right) / of).toFixed(1)}`;
    return `${measure} ${share}`;
  });
  process.stdout.write(`${name.padEnd(42)} ${String(messages).padStart(5)}  ${figures.join("  ")}\n`);
}

function readMessages(from: string): Labelled[] {
  const labels: Expected[] = JSON.parse(readFileSync(join(from, "expected.json"), "utf8"));
  return labels.map((expected) => ({ expected, octets: readFileSync(join(from, "emails", expected.file)) }));
}
