import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { formatAddressBlock, readBlockAround } from "../../core/dns/address-block.ts";
import { KeyRing } from "../../core/key-ring.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isHttpUrl, parseHttpUrl, parseUrl } from "../../core/url.ts";

/** Reads one setting: null stands for unset; the error is the rest of the sentence after the variable's name. */
export type Parse<T> = (text: string | null) => Result<T, string>;

/** An address to listen on or to connect to; IPv6 hosts without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
  /** Of `[::]` beside an IPv4 address with the same port: it leaves IPv4 to that one. Alone it takes both. */
  readonly ipv6Only?: boolean;
}

/** The parts of `host:port` that was checked before; an IPv6 host comes in brackets, and is told without. */
export function splitHostPort(text: string): HostPort {
  const colon = text.lastIndexOf(":");
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(text.slice(colon + 1)) };
}

/** Where outgoing mail goes. */
export type Delivery =
  | { readonly kind: "sandbox" }
  | { readonly kind: "mx" }
  | { readonly kind: "smart-host"; readonly host: string; readonly port: number };

/** Unset stays null; what is set is read by `inner`. */
export function optional<T>(inner: Parse<T>): Parse<T | null> {
  return (text) => (text === null ? ok(null) : inner(text));
}

export function text(least: number, most: number): Parse<string> {
  return (value) =>
    value === null || value.length < least || value.length > most
      ? refuse(`must have ${least} to ${most} characters`)
      : ok(value);
}

export function choice<const C extends readonly string[]>(...choices: C): Parse<C[number]> {
  return (value) =>
    value !== null && choices.includes(value) ? ok(value as C[number]) : refuse(`must be one of ${choices.join(", ")}`);
}

export const logLevel = choice("trace", "debug", "info", "warn", "error", "silent");

export function wholeNumber(least: number, most: number): Parse<number> {
  return (value) => {
    const number = Number(value);
    return value !== null && /^\d+$/.test(value) && number >= least && number <= most
      ? ok(number)
      : refuse(`must be a whole number from ${least} to ${most}`);
  };
}

/** `25MiB`, `50MB`, `1000`; octets. */
export const octets: Parse<number> = octetsBetween("1KiB", "2GiB");

/** As `octets`, for the memory of the zones: eight segments of at most 2 GiB each. */
export const zoneDatabaseOctets: Parse<number> = (value) => {
  const size = octetsBetween("8MiB", "16376MiB")(value);
  return size.ok ? ok(Math.floor(size.value / 8) * 8) : size;
};

function octetsBetween(least: string, most: string): Parse<number> {
  return (value) => {
    const size = sizeOf(value ?? "");
    if (size === undefined) return refuse("must be a size such as 25MiB or 1000000");
    const isPossible = size >= sizeOf(least)! && size <= sizeOf(most)!;
    return isPossible ? ok(size) : refuse(`must lie between ${least} and ${most}`);
  };
}

function sizeOf(text: string): number | undefined {
  const match = /^(\d+)\s*(B|kB|KiB|MB|MiB|GB|GiB)?$/.exec(text);
  const units = { B: 1, kB: 1e3, KiB: 2 ** 10, MB: 1e6, MiB: 2 ** 20, GB: 1e9, GiB: 2 ** 30 } as const;
  return match ? Number(match[1]) * units[(match[2] ?? "B") as keyof typeof units] : undefined;
}

/** Positive whole seconds, parted by commas. */
export const secondsList: Parse<readonly number[]> = (value) => {
  const numbers = (value ?? "").split(",").map((item) => item.trim());
  return numbers.every((item) => /^[1-9]\d{0,6}$/.test(item))
    ? ok(numbers.map(Number))
    : refuse("must be seconds parted by commas, such as 300,600,1200");
};

/** Secrets parted by commas; none when empty. */
export const secretList: Parse<readonly string[]> = (value) => {
  const secrets = (value ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter(Boolean);
  return secrets.every((secret) => secret.length >= 16)
    ? ok(secrets)
    : refuse("must be secrets of at least 16 characters, parted by commas");
};

/** Resellers' ids parted by commas. */
export const resellerList: Parse<readonly string[]> = (value) => {
  const ids = (value ?? "").split(",").map((item) => item.trim());
  return ids.every((id) => /^[^\s,\p{Cc}]+$/u.test(id)) ? ok(ids) : refuse("must be ids of resellers parted by commas");
};

/** The text of a key file. */
export const keyFile: Parse<KeyRing> = (value) => KeyRing.parse(value ?? "");

export const path: Parse<string> = (value) => (value ? ok(resolve(value)) : refuse("must be a path"));

/** A host name, lower-cased, without the final dot. */
export const domain: Parse<string> = (value) => {
  const name = (value ?? "").toLowerCase().replace(/\.$/, "");
  const lawful =
    name.length <= 253 && name.split(".").every((label) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(label));
  return lawful ? ok(name) : refuse("must be a host name");
};

export const hostPort: Parse<HostPort> = (value) => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(value ?? "");
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3]);
  const lawfulHost = match?.[1] !== undefined ? isIP(host) === 6 : isIP(host) === 4 || domain(host).ok;
  return match && lawfulHost && port <= 65535 ? ok({ host, port }) : refuse("must be host:port");
};

/** `address:port`: what others can be told to speak to. */
export const addressPort: Parse<HostPort> = (value) => {
  const read = hostPort(value);
  return read.ok && isIP(read.value.host) !== 0 && read.value.port > 0 ? read : refuse("must be address:port");
};

/** `host:port`, several parted by commas, or `off` for none. */
export const listenList: Parse<readonly HostPort[]> = (value) => {
  if (value === "off") return ok([]);
  const addresses: HostPort[] = [];
  for (const item of (value ?? "").split(",")) {
    const address = hostPort(item.trim());
    if (!address.ok) return refuse("must be host:port, several parted by commas, or off");
    addresses.push(address.value);
  }
  const besides = ({ port }: HostPort) => addresses.some((other) => other.port === port && isIP(other.host) === 4);
  return ok(
    addresses.map((address) => (address.host === "::" && besides(address) ? { ...address, ipv6Only: true } : address)),
  );
};

export const httpUrl: Parse<string> = (value) => {
  const url = isHttpUrl(value ?? "") ? parseHttpUrl(value ?? "") : undefined;
  return url && !url.search && !url.hash
    ? ok(url.href.replace(/\/$/, ""))
    : refuse("must be an http or https URL without query");
};

/** What `sslmode` may be; the driver checks the server's certificate with all but the first and the last. */
const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];
const SSL_FILES = ["sslcert", "sslkey", "sslrootcert"];

/** A URL whose host stands in the query, as that of a socket does, may have none before its path. */
export const postgresUrl: Parse<string> = (value) => {
  const whole = (value ?? "").replace(/^(postgres(?:ql)?:\/\/[^/?#]*@)(?=[:/])/, "$1localhost");
  const url = parseUrl(whole);
  if (!/^postgres(ql)?:$/.test(url?.protocol ?? "")) return refuse("must be a postgres:// URL");
  const { searchParams } = url!;
  const mode = searchParams.get("sslmode");
  if (mode !== null && !SSL_MODES.includes(mode)) return refuse(`sslmode must be one of ${SSL_MODES.join(", ")}`);
  for (const name of SSL_FILES) {
    const problem = whyUnread(searchParams.get(name));
    if (problem !== undefined) return refuse(`${name}: ${problem}`);
  }
  // What the driver takes them for, and else warns of at every start; its other reading of them is asked for by name.
  if (searchParams.has("uselibpqcompat")) return ok(whole);
  return ok(whole.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=[&#]|$)/, "$1verify-full"));
};

function whyUnread(file: string | null): string | undefined {
  try {
    if (file !== null && file !== "") readFileSync(file);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Address blocks in CIDR form parted by commas, whose host bits do not count; a bare address is a block of one. */
export const addressBlocks: Parse<readonly string[]> = (value) => {
  const blocks: string[] = [];
  for (const item of (value ?? "").split(",").map((item) => item.trim())) {
    if (item === "") continue;
    const block = readBlockAround(item);
    if (!block.ok) return refuse(block.error.message);
    blocks.push(formatAddressBlock(block.value));
  }
  return ok(blocks);
};

/** `name=value`, several parted by commas, percent-encoded where need be; none when empty. */
export const keyValues: Parse<Readonly<Record<string, string>>> = (value) => {
  const values: Record<string, string> = {};
  for (const pair of (value ?? "").split(",").filter((pair) => pair.trim() !== "")) {
    const [, name, text] = /^\s*([^\s=]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    try {
      if (name === undefined || text === undefined) return refuse(NO_KEY_VALUES);
      values[decodeURIComponent(name)] = decodeURIComponent(text);
    } catch {
      return refuse(NO_KEY_VALUES);
    }
  }
  return ok(values);
};

const NO_KEY_VALUES = "must be name=value, several parted by commas, percent-encoded";

/** A part of the whole. */
export const share: Parse<number> = (value) => {
  const number = Number(value);
  return value !== null && /^\d*\.?\d+$/.test(value) && number <= 1
    ? ok(number)
    : refuse("must be a number from 0 to 1");
};

export const addressList: Parse<readonly string[]> = (value) => {
  const addresses = (value ?? "").split(",").map((item) => item.trim().toLowerCase());
  return addresses.every((address) => /^[^\s@<>]+@[^\s@<>]+$/.test(address))
    ? ok(addresses)
    : refuse("must be mail addresses parted by commas");
};

export const delivery: Parse<Delivery> = (value) => {
  if (value === "sandbox" || value === "mx") return ok({ kind: value });
  const address = hostPort(/^smtp:\/\/(.+?)\/?$/.exec(value ?? "")?.[1] ?? null);
  return address.ok ? ok({ kind: "smart-host", ...address.value }) : refuse("must be sandbox, mx or smtp://host:port");
};
