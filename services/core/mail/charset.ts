import { Buffer } from "node:buffer";

/** Reads octets of one charset as text. */
export interface CharsetDecoder {
  /** @throws TypeError for octets that are none of the charset's, where the decoder was asked for as `fatal` */
  decode(octets: Uint8Array): string;
}

/**
 * The decoder that a label means. Windows-1252, and what is read as such by its label (`iso-8859-1`, `us-ascii`), is
 * decoded here: the TextDecoder of Node 20 makes control characters of its octets 0x80 to 0x9f.
 * @param label as written, in any case
 * @param options those of TextDecoder
 * @returns undefined for a label that names no charset
 * @see https://encoding.spec.whatwg.org/#names-and-labels
 */
export function charsetDecoder(
  label: string,
  options: { readonly fatal?: boolean; readonly ignoreBOM?: boolean } = {},
): CharsetDecoder | undefined {
  try {
    const decoder = new TextDecoder(label, options);
    return decoder.encoding === "windows-1252" ? WINDOWS_1252 : decoder;
  } catch {
    return undefined;
  }
}

/** Has a character for each octet. */
export const WINDOWS_1252: CharsetDecoder = {
  decode: (octets) =>
    Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength)
      .toString("latin1")
      .replace(/[\x80-\x9f]/g, (octet) => FROM_0X80[octet.charCodeAt(0) - 0x80]!),
};

/**
 * What stands for the octets 0x80 to 0x9f; five of them are control characters.
 * @see https://encoding.spec.whatwg.org/index-windows-1252.txt
 */
const FROM_0X80 = [..."€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f", ..."\x90‘’“”•–—˜™š›œ\x9džŸ"];
