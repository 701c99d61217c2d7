/**
 * Which code points a domain label may hold, and how they behave in right-to-left labels.
 * Derived from Unicode properties by the rules of RFC 5892, so that the table is the runtime's own Unicode version.
 */

/** RFC 5892 §2.6: valid whatever the general rules say. */
const ALLOWED_EXCEPTIONS = /^[\u00DF\u03C2\u06FD\u06FE\u0F0B\u3007]$/u;
/** RFC 5892 §2.6: never valid, though the general rules would allow them. */
const REFUSED_EXCEPTIONS = /^[\u0640\u07FA\u302E\u302F\u3031-\u3035\u303B]$/u;
/** RFC 5892 §2.2, §2.3: unstable under normalisation and case folding, or ignorable. */
const UNSTABLE_OR_IGNORABLE = /^[\p{CWKCF}\p{DI}\p{White_Space}\p{NChar}]$/u;
/** RFC 5892 §2.4, §2.9: combining marks for symbols, musical notation, old Hangul Jamo. */
const REFUSED_BLOCKS =
  /^[\u20D0-\u20FF\u1100-\u11FF\uA960-\uA97C\uD7B0-\uD7FB\u{1D100}-\u{1D1FF}\u{1D200}-\u{1D24F}]$/u;
/** RFC 5892 §2.1 (LetterDigits) and the hyphen of §2.7. */
const LETTER_OR_DIGIT = /^[-\p{Ll}\p{Lu}\p{Lo}\p{Nd}\p{Lm}\p{Mn}\p{Mc}]$/u;
const JOINERS = /^[\u200C\u200D]$/;
const CONTEXTUAL = /^[\u00B7\u0375\u05F3\u05F4\u30FB\u0660-\u0669\u06F0-\u06F9]$/;

/** The derived property of RFC 5892 §3; `joiner` and `contextual` depend on their neighbours (Appendix A). */
type CodePointClass = "valid" | "joiner" | "contextual" | "refused";

/** Class of one code point, given as a string. */
export function codePointClass(character: string): CodePointClass {
  if (ALLOWED_EXCEPTIONS.test(character)) return "valid";
  if (REFUSED_EXCEPTIONS.test(character)) return "refused";
  if (CONTEXTUAL.test(character)) return "contextual";
  if (JOINERS.test(character)) return "joiner";
  if (UNSTABLE_OR_IGNORABLE.test(character) || REFUSED_BLOCKS.test(character)) return "refused";
  return LETTER_OR_DIGIT.test(character) ? "valid" : "refused";
}

/**
 * Whether a `contextual` code point may stand where it stands.
 * @param label all code points of the label
 * @see RFC 5892 Appendix A.3 to A.9
 */
export function isAllowedInContext(label: readonly string[], index: number): boolean {
  const character = label[index] ?? "";
  switch (character) {
    case "\u00B7": // middle dot: between two l, as in Catalan
      return label[index - 1] === "l" && label[index + 1] === "l";
    case "\u0375": // Greek lower numeral sign
      return /^\p{Script=Greek}$/u.test(label[index + 1] ?? "");
    case "\u05F3": // Hebrew geresh and gershayim
    case "\u05F4":
      return /^\p{Script=Hebrew}$/u.test(label[index - 1] ?? "");
    case "\u30FB": // Katakana middle dot: somewhere in the label stands a Japanese letter
      return label.some((other) => /^[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]$/u.test(other));
    default: // Arabic-Indic digits and their extended forms do not mix
      return character < "\u06F0"
        ? !label.some((other) => /^[\u06F0-\u06F9]$/.test(other))
        : !label.some((other) => /^[\u0660-\u0669]$/.test(other));
  }
}

/** Bidirectional class, as coarse as RFC 5893 needs it: R stands for R and AL, ON for ES, CS, ET, ON and BN. */
export type Direction = "L" | "R" | "AN" | "EN" | "ON" | "NSM";

const NON_SPACING_MARK = /^(?![\u0CBF\u0CC6\u{11A07}\u{11A08}\u{11C3F}])\p{Mn}$/u;
const EUROPEAN_NUMBER = /^[0-9\u06F0-\u06F9]$/;
const ARABIC_NUMBER = /^[\u0660-\u0669\u{10D30}-\u{10D39}]$/u;
const NEUTRAL =
  /^(?:\p{Join_Control}|[-\u00B7\u02B9\u02BA\u02C6-\u02CF\u02EC\u0375\u2E2F\u30FB\uA67F\uA717-\uA71F\uA788])$/u;
const RIGHT_TO_LEFT = /^[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFF\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]$/u;

/** Direction of a code point that a label may hold; meaningless for others. */
export function directionOf(character: string): Direction {
  if (NON_SPACING_MARK.test(character)) return "NSM";
  if (EUROPEAN_NUMBER.test(character)) return "EN";
  if (ARABIC_NUMBER.test(character)) return "AN";
  if (NEUTRAL.test(character)) return "ON";
  return RIGHT_TO_LEFT.test(character) ? "R" : "L";
}
