import { findDeliveryReport } from "./dsn.ts";
import type { MimePart } from "./mime.ts";
import { passagesOf, readNotice } from "./notice.ts";
import { findJsonNotification } from "./notification.ts";

/** What a report says of a recipient, on one line. */
interface RemoteWords {
  readonly words: string;
  /** That of its Diagnostic-Code, as it is spelt there (`smtp`, `X-Postfix`); null where the words are not of one. */
  readonly diagnosticType: string | null;
}

const MOST_CHARACTERS = 1_000;
const MOST_PASSAGE_CHARACTERS = 4_000;

/**
 * What a report says of each recipient, to be told to who sent the message: its Diagnostic-Code as it came, else what its
 * notice for people says; "" where it says nothing.
 * @param addresses of the report's recipients, in its order, as they are judged: a field may have named no mailbox
 * @see RFC 3464 §2.3.6
 */
export function readRemoteWords(root: MimePart, addresses: readonly string[]): readonly RemoteWords[] {
  const notification = findJsonNotification(root);
  const report = notification ?? findDeliveryReport(root);
  const notice = readNotice(report && "container" in report ? report.container : root);
  const passages = notification ? [] : passagesOf(notice.text, addresses);
  // A notice that names nobody is about the only recipient.
  const unnamed = !notification && addresses.length === 1 ? notice.text : "";
  return addresses.map((address, index) => {
    const diagnostic = report?.recipients[index]?.diagnostic ?? "";
    const [, type, text = ""] = DIAGNOSTIC.exec(diagnostic) ?? [];
    if (type !== undefined && text.trim() !== "") return { words: onOneLine(text), diagnosticType: type };
    const passage = passages[index]?.passage ?? "";
    const untyped = type === undefined ? diagnostic : "";
    return {
      words: onOneLine(untyped || (passage === "" ? unnamed : wordsOfPassage(passage, address))),
      diagnosticType: null,
    };
  });
}

/** The field is the first line of what a report says of a recipient; behind it stand those that single systems add. */
const DIAGNOSTIC = /^\s{0,9}([A-Za-z][A-Za-z0-9-]{0,30})\s{0,9};([^\n]*)/;

/** What stands beside or under the address; sendmail has it under the heading of its transcript. */
function wordsOfPassage(passage: string, address: string): string {
  const [first = "", ...others] = passage.slice(0, MOST_PASSAGE_CHARACTERS).split(/\n[ \t]*\n/);
  const beside = withoutAddress(first, address);
  if (/\p{L}{2}/u.test(beside)) return beside;
  const transcript = others.find((paragraph) => TRANSCRIPT.test(paragraph)) ?? "";
  return transcript.replace(TRANSCRIPT, "");
}

const TRANSCRIPT = /^\s{0,9}-{3,9} Transcript of session follows -{3,9}/;

/** Without the address at its beginning, and what closes it there. */
function withoutAddress(paragraph: string, address: string): string {
  const begins = paragraph.toLowerCase().startsWith(address.toLowerCase());
  return begins ? paragraph.slice(address.length).replace(/^[>)'"]{0,3}(?:\.{3}|:)?/, "") : paragraph;
}

function onOneLine(words: string): string {
  return words
    .replace(/[\s\x00-\x1f\x7f]+/g, " ")
    .slice(0, MOST_CHARACTERS)
    .trim();
}
