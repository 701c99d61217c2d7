/** The part of the punycode package that is used here. Its own name alone would be Node's deprecated module. */
declare module "punycode/punycode.js" {
  const punycode: {
    /** Throws RangeError where the text has more than can be counted. */
    encode(unicode: string): string;
    /** Throws RangeError for what is no Punycode. */
    decode(punycode: string): string;
  };
  export default punycode;
}
