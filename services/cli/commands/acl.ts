import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { parseDomainName } from "../../core/dns/name.ts";
import type { TsigAlgorithm } from "../../core/dns/tsig.ts";
import { type Acl, addAcl } from "../../store/acls.ts";
import type { StoredTsigKey } from "../../store/tsig-keys.ts";
import { zoneName } from "../../store/zones.ts";
import { canonicalBlock, isWholeAddress } from "../address-block.ts";
import type { CommandRuntime } from "../runtime.ts";

interface AclOptions {
  readonly block: readonly string[];
  readonly tsig?: string;
  readonly zone: readonly string[];
  readonly notify: readonly string[];
}

/** Octets of a new key: as many as the algorithm's output has (RFC 2104 §3). */
const SECRET_OCTETS: { readonly [algorithm in TsigAlgorithm]: number } = {
  "hmac-sha1": 20,
  "hmac-sha224": 28,
  "hmac-sha256": 32,
  "hmac-sha384": 48,
  "hmac-sha512": 64,
};

const DEFAULT_ALGORITHM: TsigAlgorithm = "hmac-sha256";
const DNS_PORT = 53;

/** `palomar acl`: who may transfer a reseller's zones. */
export function registerAclCommand(program: Command, runtime: CommandRuntime): void {
  const acl = program.command("acl").description("zone transfers: sources, keys, servers to notify");
  const gather = (value: string, gathered: readonly string[]) => [...gathered, value];
  acl
    .command("add")
    .argument("<reseller_id>")
    .argument("<name>")
    .option("--block <cidr>", "a source that may transfer; repeatable", gather, [])
    .option("--tsig <key>", "NAME[:ALGORITHM[:BASE64]]: whoever has the key may transfer; made when not given")
    .option("--zone <fqdn>", "a zone it is for; repeatable; all of the reseller's when not given", gather, [])
    .option("--notify <host[:port]>", "a server to tell of changes; repeatable", gather, [])
    .description("allow transfers; prints the key's secret, once")
    .action(async (resellerId: string, name: string, options: AclOptions) => {
      const parts = readParts(runtime, name, options);
      const tsig = options.tsig === undefined ? null : readKey(runtime, options.tsig);
      const added = await runtime.withDatabase(({ db, secret }) => addAcl(db, secret, { ...parts, resellerId, tsig }));
      if (!added.ok) runtime.refuse(added.error.kind === "unacceptable" ? added.error.text : added.error.kind);
      const key = tsig && { name: tsig.name, algorithm: tsig.algorithm, secret: tsig.secret.toString("base64") };
      runtime.print({ name, tsig: key }, key ? `${name} ${key.name} ${key.algorithm} ${key.secret}` : name);
    });
}

function readParts(runtime: CommandRuntime, name: string, options: AclOptions): Omit<Acl, "tsig"> {
  if (!/^[^\p{Cc}]{1,128}$/u.test(name)) runtime.refuse("a name has 1 to 128 characters, and no control characters");
  const blocks = options.block.map(
    (block) => canonicalBlock(block) ?? runtime.refuse(`${block} is not an address block, or has host bits set`),
  );
  const zones = options.zone.map((fqdn) => {
    const apex = parseDomainName(fqdn);
    return apex.ok ? zoneName(apex.value) : runtime.refuse(`${fqdn}: ${apex.error.message}`);
  });
  const notify = options.notify.map(
    (server) => canonicalServer(server) ?? runtime.refuse(`${server} is not HOST or HOST:PORT`),
  );
  return { name, blocks: unique(blocks), zones: zones.length > 0 ? unique(zones) : null, notify: unique(notify) };
}

/** `host:port`, IPv6 addresses in brackets; the port is 53 unless given. */
function canonicalServer(text: string): string | undefined {
  if (isWholeAddress(text)) return text.includes(":") ? `[${text}]:${DNS_PORT}` : `${text}:${DNS_PORT}`;
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? DNS_PORT);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  if (match?.[1] !== undefined) return isWholeAddress(host) && host.includes(":") ? `[${host}]:${port}` : undefined;
  return isWholeAddress(host) || parseDomainName(host).ok ? `${host}:${port}` : undefined;
}

function readKey(runtime: CommandRuntime, text: string): StoredTsigKey {
  const [nameText = "", algorithmText = DEFAULT_ALGORITHM, secretText] = text.split(":");
  const name = parseDomainName(nameText);
  if (!name.ok) return runtime.refuse(`TSIG key ${nameText}: ${name.error.message}`);
  const algorithm = algorithmText.toLowerCase();
  if (!isAlgorithm(algorithm)) {
    return runtime.refuse(`${algorithmText} is not one of ${Object.keys(SECRET_OCTETS).join(", ")}`);
  }
  const secret = secretText === undefined ? randomBytes(SECRET_OCTETS[algorithm]) : decodeBase64(secretText);
  if (!secret) return runtime.refuse("the secret is not base64");
  return { name: zoneName(name.value), algorithm, secret };
}

function isAlgorithm(text: string): text is TsigAlgorithm {
  return Object.hasOwn(SECRET_OCTETS, text);
}

function decodeBase64(text: string): Buffer | undefined {
  const octets = Buffer.from(text, "base64");
  const isWhole = octets.length > 0 && octets.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
  return isWhole ? octets : undefined;
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}
