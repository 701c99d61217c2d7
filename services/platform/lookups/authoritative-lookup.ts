import { isIP } from "node:net";
import { formatIpAddress } from "../../core/dns/ip-address.ts";
import type { MessageRecord } from "../../core/dns/message.ts";
import { domainNameFromWire, formatDomainName, parentOf, parseDomainName, sameName } from "../../core/dns/name.ts";
import { RCODE, TYPE } from "../../core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";
import type { Config } from "../config/config.ts";
import type { HostPort } from "../config/config-values.ts";
import { isReachable } from "./address-blocks.ts";
import { askResolver, isReadable, type LookUpSecurely, makeSecureLookup, systemResolver } from "./secure-lookup.ts";

/** What one server says of a name and type. */
export interface ServerAnswer {
  /** Its name. */
  readonly server: string;
  /** False: none of its addresses gave an answer. */
  readonly answered: boolean;
  /** RDATA in wire form. */
  readonly records: readonly Uint8Array[];
  readonly ttlSeconds: number;
}

/** What all servers of a zone say. */
export interface PublicAnswer {
  /** None: it is not known who answers for the name. */
  readonly servers: readonly ServerAnswer[];
  /** For so long caches may have it that a name of the zone is not there (RFC 2308 §5). */
  readonly negativeSeconds: number;
}

/** Looks that belong together: what is found out about a zone serves all of them. */
export interface PublicLook {
  /** @param name A-labels, without the final dot */
  ask(name: string, type: number): Promise<PublicAnswer>;
  /** What the resolver says; undefined where it does not answer. */
  resolve(name: string, type: number): Promise<readonly Uint8Array[] | undefined>;
}

/** Begins such looks. */
export type OpenPublicLook = () => PublicLook;

const DNS_PORT = 53;
const TRIES = 2;
/** Aliases that are followed, one after the other. */
const MOST_ALIASES = 4;
/** Of a zone with more name servers, and of a server with more addresses, the first ones are asked. */
const MOST_SERVERS = 13;
const MOST_ADDRESSES = 4;

const NOBODY: PublicAnswer = { servers: [], negativeSeconds: 0 };

export interface PublicLookOptions {
  readonly config: Pick<Config, "resolver" | "domainCheck" | "fetchAllow">;
  /** Where name servers listen. */
  readonly port?: number;
}

/** What a domain publishes, as its own name servers say it, or as the configured resolver does. */
export async function makePublicLook({ config, port = DNS_PORT }: PublicLookOptions): Promise<OpenPublicLook> {
  const resolver = config.resolver ?? systemResolver();
  if (config.domainCheck === "off" || resolver === undefined) {
    return () => ({ ask: async () => NOBODY, resolve: async () => undefined });
  }
  const lookUp = await makeSecureLookup(resolver);
  return () => new Look(lookUp, config.domainCheck === "resolver" ? undefined : { port, allowed: config.fetchAllow });
}

interface Zone {
  readonly negativeSeconds: number;
  readonly servers: readonly { readonly name: string; readonly addresses: readonly string[] }[];
}

class Look implements PublicLook {
  readonly #lookUp: LookUpSecurely;
  /** Undefined: the resolver alone is asked. */
  readonly #direct: { readonly port: number; readonly allowed: readonly string[] } | undefined;
  /** By apex. */
  readonly #zones = new Map<string, Promise<Zone | "none" | "unknown">>();

  constructor(
    lookUp: LookUpSecurely,
    direct: { readonly port: number; readonly allowed: readonly string[] } | undefined,
  ) {
    this.#lookUp = lookUp;
    this.#direct = direct;
  }

  async resolve(name: string, type: number): Promise<readonly Uint8Array[] | undefined> {
    const answer = await this.#lookUp(name, type);
    return answer.kind === "failure" ? undefined : answer.records;
  }

  ask(name: string, type: number): Promise<PublicAnswer> {
    return this.#ask(name, type, MOST_ALIASES);
  }

  async #ask(name: string, type: number, aliases: number): Promise<PublicAnswer> {
    const zone = await this.#zoneOf(name);
    if (zone === undefined) return NOBODY;
    if (this.#direct === undefined) return this.#askResolver(name, type, zone);
    const said = await Promise.all(zone.servers.map((server) => this.#askServer(server, name, type)));
    const targets = new Set(said.map(({ alias }) => alias));
    const [target] = targets;
    // All of them lead to the same other name: what that has counts.
    if (targets.size === 1 && target !== undefined && aliases > 0) return this.#ask(target, type, aliases - 1);
    return { servers: said.map(({ alias: _, ...answer }) => answer), negativeSeconds: zone.negativeSeconds };
  }

  async #askResolver(name: string, type: number, { negativeSeconds }: Zone): Promise<PublicAnswer> {
    const { kind, records, ttlSeconds } = await this.#lookUp(name, type);
    return { servers: [{ server: "resolver", answered: kind !== "failure", records, ttlSeconds }], negativeSeconds };
  }

  /** Every address that answers has to have it: they may be of machines that differ. */
  async #askServer(
    { name: server, addresses }: Zone["servers"][number],
    name: string,
    type: number,
  ): Promise<ServerAnswer & { readonly alias: string | undefined }> {
    const said = await Promise.all(addresses.map((host) => this.#askAddress(host, name, type)));
    const answers = said.filter((answer) => answer !== undefined);
    const [first] = answers;
    if (first === undefined) return { server, answered: false, records: [], ttlSeconds: 0, alias: undefined };
    const isEverywhere = (rdata: Uint8Array) =>
      answers.every(({ records }) => records.some((other) => Buffer.compare(other, rdata) === 0));
    const ttlSeconds = Math.max(...answers.map((answer) => answer.ttlSeconds));
    return { server, answered: true, records: first.records.filter(isEverywhere), ttlSeconds, alias: first.alias };
  }

  async #askAddress(host: string, name: string, type: number) {
    const qname = parseDomainName(`${name}.`);
    if (!qname.ok) return undefined;
    const at: HostPort = { host, port: this.#direct!.port };
    for (let tried = 0; tried < TRIES; tried += 1) {
      const answer = await askResolver(at, { qname: qname.value, type });
      if (answer === undefined) continue;
      // Who does not answer for the zone says nothing of it.
      const speaks = answer.rcode === RCODE.NOERROR || answer.rcode === RCODE.NXDOMAIN;
      if (!speaks || !answer.flags.aa || !isReadable(answer.answers, [type, TYPE.CNAME])) return undefined;
      const own = answer.answers.filter(({ owner }) => sameName(owner, qname.value));
      const found = own.filter((record) => record.type === type);
      const alias = found.length === 0 ? own.find((record) => record.type === TYPE.CNAME) : undefined;
      const ttlSeconds = Math.max(0, ...found.map(({ ttl }) => ttl));
      return { records: found.map(({ rdata }) => rdata), ttlSeconds, alias: alias && nameIn(alias) };
    }
    return undefined;
  }

  /** The closest zone above a name, as the resolver knows it. */
  async #zoneOf(name: string): Promise<Zone | undefined> {
    const parsed = parseDomainName(`${name}.`);
    if (!parsed.ok) return undefined;
    for (let apex = parsed.value; apex.labelCount > 0; apex = parentOf(apex)!) {
      const text = withoutDot(formatDomainName(apex));
      let zone = this.#zones.get(text);
      if (zone === undefined) {
        zone = this.#readZone(text);
        this.#zones.set(text, zone);
      }
      const found = await zone;
      if (found === "unknown") return undefined;
      if (found !== "none") return found;
    }
    return undefined;
  }

  /** `none`: there is no zone of that name; `unknown`: nobody says. */
  async #readZone(apex: string): Promise<Zone | "none" | "unknown"> {
    const soa = await this.#lookUp(apex, TYPE.SOA);
    const [rdata] = soa.records;
    if (soa.kind === "failure") return "unknown";
    if (rdata === undefined || withoutDot(soa.owner).toLowerCase() !== apex.toLowerCase()) return "none";
    const negativeSeconds = Math.min(decodeSoaRdata(rdata).minimum, soa.ttlSeconds);
    if (this.#direct === undefined) return { negativeSeconds, servers: [] };
    const names = (await this.resolve(apex, TYPE.NS)) ?? [];
    const servers = names.slice(0, MOST_SERVERS).map(async (octets) => {
      const server = domainNameFromWire(octets);
      const name = server.ok ? withoutDot(formatDomainName(server.value)) : "";
      return { name, addresses: await this.#addressesOf(name) };
    });
    return { negativeSeconds, servers: await Promise.all(servers) };
  }

  /** A zone may name any server it likes: inner ones are asked only where the operator allows it. */
  async #addressesOf(host: string): Promise<string[]> {
    const found = await Promise.all([this.resolve(host, TYPE.A), this.resolve(host, TYPE.AAAA)]);
    const addresses = found.flatMap((records) => records ?? []).map(formatIpAddress);
    return addresses
      .filter((address) => isIP(address) > 0 && isReachable(address, this.#direct!.allowed))
      .slice(0, MOST_ADDRESSES);
  }
}

function nameIn({ rdata }: MessageRecord): string | undefined {
  const name = domainNameFromWire(rdata);
  return name.ok ? withoutDot(formatDomainName(name.value)) : undefined;
}

function withoutDot(name: string): string {
  return name.replace(/\.$/, "");
}
