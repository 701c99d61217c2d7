import type { Command } from "commander";
import { makeApiKey } from "../../core/api-key.ts";
import { validateAddress } from "../../core/mail/address.ts";
import {
  addInstance,
  addInstanceDomain,
  allowedDomains,
  findInstanceByName,
  type Instance,
  type InstanceConflict,
  type InstanceSettings,
  listInstanceDomains,
  listInstances,
  setInstanceKey,
  setInstanceSettings,
} from "../../store/instances.ts";
import type { CommandDatabase, CommandRuntime } from "../runtime.ts";

const CONFLICTS: Readonly<Record<InstanceConflict, string>> = {
  "name-taken": "an instance of this name already exists",
  "host-taken": "another instance has this host",
  "key-taken": "another instance has this key",
};

/** `palomar instance …`: the customers of the mail side. */
export function registerInstanceCommand(program: Command, runtime: CommandRuntime): void {
  const instance = program.command("instance").description("instances of the mail API");
  registerAdd(instance, runtime);
  registerList(instance, runtime);
  registerKeyRotate(instance, runtime);
  registerDomainAdd(instance, runtime);
  registerDkimShow(instance, runtime);
  registerSettings(instance, runtime);
}

interface AddOptions {
  readonly host: string;
  readonly domain: readonly string[];
  readonly key?: string;
  readonly archive: boolean;
  readonly timeZone?: string;
}

function registerAdd(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("add")
    .argument("<name>")
    .requiredOption("--host <host>", "the name under which its users reach the API")
    .option("--domain <domain>", "a domain that it may send from (repeatable)", collect, [])
    .option("--key <key>", "its API key; a new random one unless given")
    .option("--archive", "grant the licence to archive what is sent", false)
    .option("--time-zone <zone>", "the zone of its timestamps, such as Europe/Madrid; UTC unless given")
    .description("add an instance; prints its key, once")
    .action(async (name: string, options: AddOptions) => {
      if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/.test(name)) {
        runtime.refuse("a name has 1 to 63 letters, digits and - _, the first one no sign");
      }
      const host = readHost(runtime, options.host);
      const key = readKey(runtime, options.key);
      const domains = [...new Set(options.domain.map((domain) => readDomain(runtime, domain)))];
      const timeZone = options.timeZone === undefined ? undefined : readTimeZone(runtime, options.timeZone);
      const conflict = await runtime.withDatabase(({ db, secret }) =>
        addInstance(db, secret, { name, host, key, domains, archive: options.archive, timeZone }),
      );
      if (conflict) runtime.refuse(CONFLICTS[conflict]);
      runtime.print({ name, host, key, domains }, key);
    });
}

function registerList(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("list")
    .description("list the instances")
    .action(async () => {
      const instances = await runtime.withDatabase(({ db }) => listInstances(db));
      const lines = instances.map(({ name, host, domains }) => [name, host, ...domains].join("\t"));
      runtime.print(
        instances.map(({ domains, ...one }) => ({ ...toJson(one), domains })),
        lines.join("\n"),
      );
    });
}

function registerKeyRotate(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("key")
    .description("its API key")
    .command("rotate")
    .argument("<name>")
    .option("--key <key>", "the new key; a random one unless given")
    .description("replace the API key; prints the new one, once")
    .action(async (name: string, options: { readonly key?: string }) => {
      const key = readKey(runtime, options.key);
      await withInstance(runtime, name, async ({ db, secret }, { id }) => {
        if (!(await setInstanceKey(db, secret, id, key))) runtime.refuse(CONFLICTS["key-taken"]);
      });
      runtime.print({ name, key }, key);
    });
}

function registerDomainAdd(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("domain")
    .description("the domains that it may send from")
    .command("add")
    .argument("<name>")
    .argument("<domain>")
    .description("allow a sender domain, and make its DKIM key")
    .action(async (name: string, given: string) => {
      const domain = readDomain(runtime, given);
      const domains = await withInstance(runtime, name, async ({ db, secret }, { id }) => {
        if (!(await addInstanceDomain(db, secret, id, domain))) runtime.refuse(`${name} has ${domain} already`);
        return allowedDomains(db, id);
      });
      runtime.print({ name, domain, domains }, domains.join("\n"));
    });
}

function registerDkimShow(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("dkim")
    .description("its DKIM keys")
    .command("show")
    .argument("<name>")
    .argument("[domain]", "needed where the instance has several")
    .description("print the TXT record that publishes a DKIM key")
    .action(async (name: string, given?: string) => {
      const known = await withInstance(runtime, name, ({ db }, { id }) => listInstanceDomains(db, id));
      const asked = given === undefined ? known : known.filter(({ domain }) => domain === readDomain(runtime, given));
      const [key, another] = asked;
      if (key === undefined) runtime.refuse(given === undefined ? `${name} has no domain` : `${name} has no ${given}`);
      if (another !== undefined) runtime.refuse(`name one of ${known.map(({ domain }) => domain).join(", ")}`);
      const { domain, dkimSelector: selector, dkimRecord: value } = key;
      const owner = `${selector}._domainkey.${domain}`;
      // As a line of a zone file: one string holds 255 octets at most (RFC 1035 §3.3).
      const strings = value.match(/.{1,255}/g)!.map((part) => `"${part}"`);
      runtime.print({ domain, selector, name: owner, value }, `${owner}. TXT ${strings.join(" ")}`);
    });
}

function registerSettings(instance: Command, runtime: CommandRuntime): void {
  const change = async (name: string, settings: InstanceSettings) => {
    const changed = await withInstance(runtime, name, async ({ db }, { id }) => {
      await setInstanceSettings(db, id, settings);
      return (await findInstanceByName(db, name)) as Instance;
    });
    const json = toJson(changed);
    runtime.print(json, JSON.stringify(json, null, 2));
  };
  instance
    .command("conversions")
    .argument("<name>")
    .argument("<on|off>")
    .description("let clicked links carry a conversion token, or not")
    .action((name: string, value: string) => change(name, { conversions: readSwitch(runtime, value) }));
  instance
    .command("set")
    .argument("<name>")
    .option("--time-zone <zone>", "the zone of its timestamps")
    .option("--archive <on|off>", "the licence to archive what is sent")
    .option("--event-days <days>", "how long events are kept, or `forever`")
    .option("--archive-days <days>", "how long archived messages are kept, or `forever`")
    .description("change settings")
    .action((name: string, options: Readonly<Record<string, string | undefined>>) => {
      const read = <T>(value: string | undefined, parse: (runtime: CommandRuntime, text: string) => T) =>
        value === undefined ? undefined : parse(runtime, value);
      return change(name, {
        timeZone: read(options.timeZone, readTimeZone),
        archive: read(options.archive, readSwitch),
        eventRetentionDays: read(options.eventDays, readDays),
        archiveRetentionDays: read(options.archiveDays, readDays),
      });
    });
}

/** Runs with an instance, or refuses when there is none of the name. */
export function withInstance<T>(
  runtime: CommandRuntime,
  name: string,
  use: (database: CommandDatabase, instance: Instance) => Promise<T>,
): Promise<T> {
  return runtime.withDatabase(async (database) => {
    const instance = await findInstanceByName(database.db, name);
    return instance === undefined ? runtime.refuse(`there is no instance ${name}`) : use(database, instance);
  });
}

function toJson(instance: Instance) {
  return {
    name: instance.name,
    host: instance.host,
    archive: instance.archive,
    time_zone: instance.timeZone,
    conversions: instance.conversions,
    event_days: instance.eventRetentionDays,
    archive_days: instance.archiveRetentionDays,
  };
}

function collect(value: string, earlier: readonly string[]): string[] {
  return [...earlier, value];
}

/** Requests are told apart by the name alone, whatever the port. */
function readHost(runtime: CommandRuntime, given: string): string {
  const host = given.toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
  if (!/^([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])$/.test(host)) runtime.refuse(`${given} is no host name`);
  return host;
}

/** A key travels in a header: printable ASCII without spaces. */
function readKey(runtime: CommandRuntime, given: string | undefined): string {
  if (given === undefined) return makeApiKey();
  if (!/^[\x21-\x7e]{8,128}$/.test(given)) {
    runtime.refuse("a key has 8 to 128 printable ASCII characters without spaces");
  }
  return given;
}

/** A domain is one that a sender address can have. @returns A-labels in lower case */
function readDomain(runtime: CommandRuntime, given: string): string {
  const address = validateAddress(`postmaster@${given.replace(/\.$/, "")}`, { allowSmtputf8: false });
  return address.ok ? address.value.asciiDomain : runtime.refuse(address.error);
}

function readTimeZone(runtime: CommandRuntime, given: string): string {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: given }).resolvedOptions().timeZone;
  } catch {
    return runtime.refuse(`${given} is no time zone`);
  }
}

function readSwitch(runtime: CommandRuntime, given: string): boolean {
  return given === "on" || given === "off" ? given === "on" : runtime.refuse("on or off");
}

function readDays(runtime: CommandRuntime, given: string): number | null {
  if (given === "forever") return null;
  return /^[1-9]\d{0,4}$/.test(given) ? Number(given) : runtime.refuse(`${given} is no number of days`);
}
