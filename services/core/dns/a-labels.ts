import { toASCII } from "tr46";
import { ok, type Result, refuse } from "../result.ts";
import { sentence } from "../sentences.ts";
import type { NameError } from "./name-error.ts";

/** Longest name on the wire, root octet included (RFC 1035 §2.3.4). */
export const MAX_NAME_OCTETS = 255;
/** Longest name in presentation format: an octet takes four characters at most, `\DDD`. */
export const MAX_NAME_CHARACTERS = 4 * MAX_NAME_OCTETS;

/**
 * Converts the U-labels of a name in presentation format to A-labels (UTS #46, non-transitional) and leaves all
 * else as it is: ASCII labels whatever they hold (underscores, asterisks, upper case), and octet escapes.
 */
export function toAscii(text: string): Result<string, NameError> {
  // The conversion of a label takes time by the square of its length.
  if (text.length > MAX_NAME_CHARACTERS) return refuse(sentence("name-too-long", { most: MAX_NAME_OCTETS }));
  if (!NON_ASCII.test(text)) return ok(text);
  const labels: string[] = [];
  // UTS #46 §2.3: the ideographic and full-width full stops separate labels as well.
  for (const label of splitLabels(text.replace(/[\u3002\uff0e\uff61]/gu, "."))) {
    const ascii = NON_ASCII.test(label) ? labelToAscii(label) : label;
    if (ascii === undefined) return refuse(sentence("no-a-label", { text: label }));
    labels.push(ascii);
  }
  return ok(labels.join("."));
}

/** Finds characters that stand in no A-label. */
export const NON_ASCII = /[^\0-\x7f]/;

function splitLabels(text: string): string[] {
  const labels: string[] = [];
  let start = 0;
  for (let position = 0; position < text.length; position += 1) {
    if (text[position] === "\\") {
      position += 1;
    } else if (text[position] === ".") {
      labels.push(text.slice(start, position));
      start = position + 1;
    }
  }
  labels.push(text.slice(start));
  return labels;
}

function labelToAscii(label: string): string | undefined {
  // An escape is an octet, a U-label is characters: a label cannot be both.
  if (label.includes("\\")) return undefined;
  const ascii = toASCII(label, {
    checkBidi: true,
    checkJoiners: true,
    checkHyphens: false,
    useSTD3ASCIIRules: false,
    transitionalProcessing: false,
    verifyDNSLength: false,
  });
  return ascii === null || ascii === "" || /[.\\]/.test(ascii) ? undefined : ascii;
}
