/** Punycode, the spelling of Unicode labels in DNS (RFC 3492), without any mapping or case folding. */
import codec from "punycode/punycode.js";

/** @returns the label without the `xn--` prefix, in lower case (RFC 3492 §6.3) */
export function encodePunycode(label: string): string {
  return codec.encode(label);
}

/**
 * @param punycode lower-case ASCII without the `xn--` prefix
 * @returns null when it is no Punycode (RFC 3492 §6.2)
 */
export function decodePunycode(punycode: string): string | null {
  try {
    // A delimiter in front of nothing is one all the same; the package takes it for a digit.
    return codec.decode(punycode.lastIndexOf("-") === 0 ? punycode.slice(1) : punycode);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
