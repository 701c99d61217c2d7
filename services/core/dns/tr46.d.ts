/** The part of the tr46 package (UTS #46) that is used here; the package carries no types of its own. */
declare module "tr46" {
  export interface ToAsciiOptions {
    checkHyphens?: boolean;
    checkBidi?: boolean;
    checkJoiners?: boolean;
    useSTD3ASCIIRules?: boolean;
    verifyDNSLength?: boolean;
    transitionalProcessing?: boolean;
    ignoreInvalidPunycode?: boolean;
  }
  export function toASCII(domainName: string, options?: ToAsciiOptions): string | null;
  export function toUnicode(domainName: string, options?: ToAsciiOptions): { domain: string; error: boolean };
}
