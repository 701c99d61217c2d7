import { isIP } from "node:net";
import { type Command, Option } from "commander";
import {
  POLICY_CONSUMERS,
  type PolicyConsumer,
  policyStanza,
  SECONDARIES,
  type Secondary,
  secondaryStanza,
} from "../../core/dns/acl-stanzas.ts";
import { parseDomainName } from "../../core/dns/name.ts";
import type { Config } from "../../platform/config/config.ts";
import { addressPort, type HostPort } from "../../platform/config/config-values.ts";
import { firstAddress } from "../../platform/service.ts";
import { findAcl } from "../../store/dns/acls.ts";
import { findFeed } from "../../store/dns/rpz-feeds.ts";
import { listAclZones } from "../../store/dns/transfer-zones.ts";
import { zoneName } from "../../store/dns/zones.ts";
import { readAddresses } from "../data-folder.ts";
import type { CommandDatabase } from "../database.ts";
import { gather } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

interface ShowOptions {
  readonly for: Secondary | PolicyConsumer;
  readonly rpz: readonly string[];
  readonly primary?: string;
}

/** `palomar acl show`: what to paste on the other side, secret included. Adds to the `acl` command. */
export function registerAclShowCommand(program: Command, runtime: CommandRuntime): void {
  const acl = program.commands.find((command) => command.name() === "acl") ?? program.command("acl");
  const programs = [...new Set<string>([...SECONDARIES, ...POLICY_CONSUMERS])];
  acl
    .command("show")
    .argument("<reseller_id>")
    .argument("<name>")
    .addOption(new Option("--for <program>", "whose configuration it is").choices(programs).makeOptionMandatory())
    .option(
      "--rpz <feed>",
      "for a resolver that applies this policy zone; repeatable, in the order of applying",
      gather,
      [],
    )
    .option("--primary <address:port>", "the address of this server; the running one's when not given")
    .description("print the configuration of a secondary or a resolver, secret included")
    .action(async (resellerId: string, name: string, options: ShowOptions) => {
      const primary = readPrimary(runtime, options.primary);
      const stanza = await runtime.withDatabase((database) =>
        composeStanza(runtime, database, { resellerId, name, primary, options }),
      );
      runtime.print({ name, for: options.for, stanza }, stanza);
    });
}

async function composeStanza(
  runtime: CommandRuntime,
  { db, keyRing }: CommandDatabase,
  wanted: { resellerId: string; name: string; primary: HostPort; options: ShowOptions },
): Promise<string> {
  const { resellerId, name, primary, options } = wanted;
  const acl = await findAcl(db, keyRing, resellerId, name);
  if (!acl) return runtime.refuse(`ACL ${name} does not exist`);
  const facts = { resellerId, aclName: name, key: acl.tsig, primary };
  if (options.rpz.length === 0) {
    if (!isOneOf(SECONDARIES, options.for)) return runtime.misused(`${options.for} is no secondary: give --rpz FEED`);
    const zones = await listAclZones(db, resellerId, acl.zones);
    return secondaryStanza(options.for, { ...facts, zones });
  }
  if (!isOneOf(POLICY_CONSUMERS, options.for)) return runtime.misused(`${options.for} applies no policy zones`);
  const feeds = new Set<string>();
  for (const feed of options.rpz) {
    const apex = parseDomainName(feed);
    if (!apex.ok || !(await findFeed(db, apex.value))) return runtime.refuse(`feed ${feed} does not exist`);
    feeds.add(zoneName(apex.value));
  }
  return policyStanza(options.for, { ...facts, zones: [] }, [...feeds]);
}

function isOneOf<const Names extends readonly string[]>(names: Names, name: string): name is Names[number] {
  return names.includes(name);
}

function readPrimary(runtime: CommandRuntime, given: string | undefined): HostPort {
  const text = given ?? runningServer(runtime.config);
  const read = addressPort(text !== undefined && isIP(text) === 4 ? `${text}:53` : (text ?? null));
  if (text === undefined) return runtime.refuse("no DNS server is configured: give --primary ADDRESS:PORT");
  if (!read.ok) return runtime.misused(`${text} is not ADDRESS:PORT${given === undefined ? ": give --primary" : ""}`);
  const { host } = read.value;
  if (host === "0.0.0.0" || host === "::")
    return runtime.refuse("the server listens on all addresses: give --primary ADDRESS:PORT");
  return read.value;
}

/** The first address of the running server, else of the configured one. */
function runningServer(config: Config): string | undefined {
  const dns = readAddresses(config)?.dns;
  if (dns) return firstAddress(dns);
  const [first] = config.listen.dns;
  return first && (first.host.includes(":") ? `[${first.host}]:${first.port}` : `${first.host}:${first.port}`);
}
