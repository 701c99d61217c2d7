/** The octets of a message as text to look at: in UTF-8, or octet by octet where they are no such. */
export function sourceText(source: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(source);
  } catch {
    return new TextDecoder("latin1").decode(source);
  }
}
