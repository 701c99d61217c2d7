import { isUtf8 } from "node:buffer";
import { type Sentence, sentence } from "../../sentences.ts";
import { formatIpv4, formatIpv6, parseIpv4, parseIpv6 } from "../ip-address.ts";
import { BAD_ESCAPE, octetsOfText, quotedText } from "../octet-text.ts";
import { numberOf } from "./basic-fields.ts";
import { formatBase64, parseBase64 } from "./encoded-fields.ts";
import type { Field, TokenCursor } from "./field.ts";

/** One SvcParam: its key's number and its value in wire form. */
interface ServiceParameter {
  readonly key: number;
  readonly value: Uint8Array;
}

/** How the value of a known key is read and written; `undefined` stands for a value that is not lawful. */
interface ParameterCodec {
  parse(octets: Uint8Array): Uint8Array | undefined;
  format(value: Uint8Array): string | undefined;
}

/** Keys of the registry "Service Parameter Keys (SvcParamKeys)" by their names. */
const KEY_BY_NAME: Readonly<Record<string, number>> = {
  mandatory: 0,
  alpn: 1,
  "no-default-alpn": 2,
  port: 3,
  ipv4hint: 4,
  ech: 5,
  ipv6hint: 6,
  dohpath: 7,
  ohttp: 8,
};
const MANDATORY = KEY_BY_NAME.mandatory!;
const ALPN = KEY_BY_NAME.alpn!;
const NO_DEFAULT_ALPN = KEY_BY_NAME["no-default-alpn"]!;

/** Names that are written; keys younger than RFC 9460 are written `keyNNN`, which every peer can read. */
const NAME_BY_KEY = new Map(Object.entries(KEY_BY_NAME).flatMap(([name, key]) => (key <= 6 ? [[key, name]] : [])));

/**
 * The parameters of SVCB and HTTPS up to the end.
 * @see RFC 9460 §2.1 (text), §2.2 (wire), §7 and §8 (keys)
 */
export const serviceParametersField: Field = {
  name: "SvcParams",
  layout: "rest",
  parse(tokens, out) {
    const parameters: ServiceParameter[] = [];
    for (let word = takeWord(tokens); word !== undefined; word = takeWord(tokens)) {
      const parameter = parseParameter(word.text, word.quotedValue);
      if ("code" in parameter) return parameter;
      parameters.push(parameter);
    }
    parameters.sort((a, b) => a.key - b.key);
    const problem = problemWith(parameters);
    if (problem !== undefined) return problem;
    for (const { key, value } of parameters) {
      out.u16(key);
      out.u16(value.length);
      out.bytes(value);
    }
    return undefined;
  },
  format(octets, form) {
    const parameters = splitParameters(octets);
    if (parameters === undefined || problemWith(parameters) !== undefined) return undefined;
    const alpn = parameters.find(({ key }) => key === ALPN);
    if (form === "master-file" && alpn && !isPortableAlpn(alpn.value)) return undefined;
    return parameters.map(formatParameter).join(" ");
  },
};

/** A word, together with the quoted string that follows it without a blank after `=`. */
function takeWord(tokens: TokenCursor): { text: string; quotedValue?: string } | undefined {
  const token = tokens.take();
  const next = tokens.peek();
  if (token === undefined) return undefined;
  const adjoins = next?.quoted && next.line === token.line && next.column === token.column + token.text.length;
  if (!token.text.endsWith("=") || !adjoins) return { text: token.text };
  tokens.take();
  return { text: token.text, quotedValue: next.text };
}

function parseParameter(text: string, quotedValue: string | undefined): ServiceParameter | Sentence {
  const equals = text.indexOf("=");
  const name = equals < 0 ? text : text.slice(0, equals);
  const key = keyOf(name);
  if (key === undefined) return sentence("no-service-parameter", { text: name });
  const octets = octetsOfText(quotedValue ?? (equals < 0 ? "" : text.slice(equals + 1)));
  if (octets === undefined) return BAD_ESCAPE;
  // RFC 9460 §2.1: a keyNNN has its value as it is, without the key's own format.
  const value = name.toLowerCase().startsWith("key") ? octets : CODECS[key]!.parse(octets);
  if (value === undefined) return sentence("parameter-value", { text: `${text}${quotedValue ?? ""}`, name });
  // RFC 9460 §2.2: its length has 16 bits.
  return value.length > 0xffff ? sentence("data-too-long", { most: 0xffff }) : { key, value };
}

function keyOf(name: string): number | undefined {
  const lower = name.toLowerCase();
  if (Object.hasOwn(KEY_BY_NAME, lower)) return KEY_BY_NAME[lower];
  const match = /^key(0|[1-9]\d{0,4})$/.exec(lower);
  // 65535 is reserved as "invalid key" (RFC 9460 §14.3.2).
  return match !== null && Number(match[1]) < 0xffff ? Number(match[1]) : undefined;
}

function splitParameters(octets: Uint8Array): ServiceParameter[] | undefined {
  const parameters: ServiceParameter[] = [];
  for (let offset = 0; offset < octets.length; ) {
    if (offset + 4 > octets.length) return undefined;
    const end = offset + 4 + numberOf(octets.subarray(offset + 2, offset + 4));
    if (end > octets.length) return undefined;
    parameters.push({ key: numberOf(octets.subarray(offset, offset + 2)), value: octets.subarray(offset + 4, end) });
    offset = end;
  }
  return parameters;
}

/** What is wrong with parameters in the order of the wire (RFC 9460 §2.2, §7, §8). */
function problemWith(parameters: readonly ServiceParameter[]): Sentence | undefined {
  const keys = new Set<number>();
  let previous = -1;
  for (const { key, value } of parameters) {
    if (key === previous) return sentence("parameter-twice", { name: nameOf(key) });
    if (key < previous) return sentence("parameter-order");
    if (CODECS[key] !== undefined && CODECS[key].format(value) === undefined)
      return sentence("parameter-unlawful", { name: nameOf(key) });
    keys.add(key);
    previous = key;
  }
  const mandatory = parameters.find(({ key }) => key === MANDATORY);
  const absent = mandatory && keysIn(mandatory.value).find((key) => !keys.has(key));
  if (absent !== undefined) return sentence("parameter-mandatory", { name: nameOf(absent) });
  if (keys.has(NO_DEFAULT_ALPN) && !keys.has(ALPN)) return sentence("no-default-alpn");
  return undefined;
}

function formatParameter({ key, value }: ServiceParameter): string {
  const text = CODECS[key] === undefined ? quotedText(value) : CODECS[key].format(value)!;
  return text === "" || text === '""' ? nameOf(key) : `${nameOf(key)}=${text}`;
}

function nameOf(key: number): string {
  return NAME_BY_KEY.get(key) ?? `key${key}`;
}

function keysIn(value: Uint8Array): number[] {
  return Array.from({ length: value.length / 2 }, (_, index) => numberOf(value.subarray(index * 2, index * 2 + 2)));
}

const COMMA = 0x2c;
const BACKSLASH = 0x5c;

function ascii(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1");
}

/** A comma-separated list of addresses of `octetCount` octets each. */
function addressList(
  octetCount: number,
  parse: (text: string) => Uint8Array | undefined,
  format: (octets: Uint8Array) => string,
): ParameterCodec {
  return {
    parse(octets) {
      const addresses = ascii(octets).split(",").map(parse);
      return addresses.every((address) => address !== undefined) ? Buffer.concat(addresses) : undefined;
    },
    format(value) {
      if (value.length === 0 || value.length % octetCount !== 0) return undefined;
      const addresses: string[] = [];
      for (let start = 0; start < value.length; start += octetCount) {
        addresses.push(format(value.subarray(start, start + octetCount)));
      }
      return addresses.join(",");
    },
  };
}

const mandatoryCodec: ParameterCodec = {
  parse(octets) {
    const keys = ascii(octets).split(",").map(keyOf);
    if (!keys.every((key) => key !== undefined)) return undefined;
    return Uint8Array.from(keys.sort((a, b) => a - b).flatMap((key) => [key >> 8, key & 0xff]));
  },
  format(value) {
    if (value.length === 0 || value.length % 2 !== 0) return undefined;
    const keys = keysIn(value);
    // RFC 9460 §8: ascending, each once, and never itself.
    if (!keys.every((key, index) => key > (keys[index - 1] ?? MANDATORY))) return undefined;
    return keys.map(nameOf).join(",");
  },
};

const alpnCodec: ParameterCodec = {
  parse(octets) {
    // Each comma becomes the length of the id behind it, and the first id has one as well.
    const value = Buffer.alloc(octets.length + 1);
    let idStart = 0;
    let written = 1;
    for (let position = 0; position <= octets.length; position += 1) {
      const octet = octets[position];
      if (octet !== undefined && octet !== COMMA) {
        // A backslash takes the next octet as data (RFC 9460 appendix A.1).
        value[written++] = octet === BACKSLASH && position + 1 < octets.length ? octets[++position]! : octet;
        continue;
      }
      const length = written - idStart - 1;
      if (length === 0 || length > 255) return undefined;
      value[idStart] = length;
      idStart = written++;
    }
    return value.subarray(0, idStart);
  },
  format(value) {
    const items: number[] = [];
    for (let offset = 0; offset < value.length; ) {
      const end = offset + 1 + value[offset]!;
      if (end === offset + 1 || end > value.length) return undefined;
      if (offset > 0) items.push(COMMA);
      for (const octet of value.subarray(offset + 1, end)) {
        if (octet === COMMA || octet === BACKSLASH) items.push(BACKSLASH);
        items.push(octet);
      }
      offset = end;
    }
    return value.length === 0 ? undefined : quotedText(Uint8Array.from(items));
  },
};

/** Whether Knot reads the list: it takes an id of one octet with another behind it, and one that starts with a comma, for empty. */
function isPortableAlpn(value: Uint8Array): boolean {
  for (let offset = 0; offset < value.length; ) {
    const next = offset + 1 + value[offset]!;
    if (value[offset + 1] === COMMA || (next === offset + 2 && next < value.length)) return false;
    offset = next;
  }
  return true;
}

const flagCodec: ParameterCodec = {
  parse: (octets) => (octets.length === 0 ? octets : undefined),
  format: (value) => (value.length === 0 ? "" : undefined),
};

const portCodec: ParameterCodec = {
  parse(octets) {
    const text = ascii(octets);
    return /^\d{1,5}$/.test(text) && Number(text) <= 0xffff
      ? Uint8Array.of(Number(text) >> 8, Number(text) & 0xff)
      : undefined;
  },
  format: (value) => (value.length === 2 ? String(numberOf(value)) : undefined),
};

const echCodec: ParameterCodec = {
  parse: (octets) => parseBase64(ascii(octets)),
  format: (value) => (value.length === 0 ? undefined : formatBase64(value)),
};

/** An expression of a URI template (RFC 6570 §2.2): an operator, and variables with their modifiers. */
const TEMPLATE_EXPRESSION = /\{[+#./;?&]?([^{}]+)\}/g;
/** Without dots in names: BIND refuses a zone for them. */
const TEMPLATE_VARIABLE = /^((?:\w|%[0-9a-f]{2})+)(?::[1-9]\d{0,3}|\*)?$/i;
/** What no literal of a template has: a brace, or a percent sign that encodes nothing. */
const NO_LITERAL = /[{}]|%(?![0-9a-f]{2})/i;

/** A relative URI template with the variable `dns` (RFC 9461 §5). */
function isDohPath(octets: Uint8Array): boolean {
  const text = ascii(octets);
  if (!isUtf8(octets) || !text.startsWith("/") || NO_LITERAL.test(text.replaceAll(TEMPLATE_EXPRESSION, "/")))
    return false;
  const variables = [...text.matchAll(TEMPLATE_EXPRESSION)].flatMap(([, list]) => list!.split(","));
  const names = variables.map((variable) => TEMPLATE_VARIABLE.exec(variable)?.[1]);
  return names.includes("dns") && !names.includes(undefined);
}

const dohPathCodec: ParameterCodec = {
  parse: (octets) => (isDohPath(octets) ? octets : undefined),
  format: (value) => (isDohPath(value) ? quotedText(value) : undefined),
};

/** By key number; keys that are not here have no format of their own. */
const CODECS: readonly (ParameterCodec | undefined)[] = [
  mandatoryCodec,
  alpnCodec,
  flagCodec,
  portCodec,
  addressList(4, parseIpv4, formatIpv4),
  echCodec,
  addressList(16, parseIpv6, formatIpv6),
  dohPathCodec,
  flagCodec,
];
