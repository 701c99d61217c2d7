/** The part of the libmime package that is used here; the package carries no types of its own. */
declare module "libmime" {
  const libmime: {
    /** Media type for a file extension; `application/octet-stream` when it is unknown. */
    detectMimeType(extension: string): string;
    /** Text of a header field whose encoded words are read (RFC 2047); what is none stays as it is. */
    decodeWords(text: string): string;
  };
  export default libmime;
}
