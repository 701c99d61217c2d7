import type { Command } from "commander";
import { hashApiKey, makeApiKey } from "../../core/api-key.ts";
import {
  readChosenKey,
  readInstanceHost,
  readInstanceName,
  readNewSenderDomain,
  readSenderDomain,
  readTimeZone,
} from "../../core/customer-input.ts";
import { REPORT_LANGUAGES, type ReportLanguage } from "../../core/mail/report-words.ts";
import { rotateInstanceKey } from "../../store/key-rotation.ts";
import { findHolderOf } from "../../store/mail/instances/dkim-keys.ts";
import {
  addInstance,
  addInstanceDomain,
  allowedDomains,
  findInstanceByName,
  type Instance,
  type InstanceConflict,
  type InstanceDomain,
  type InstanceSettings,
  LEAST_MESSAGE_DAYS,
  listInstanceDomains,
  listInstances,
  setInstanceSettings,
} from "../../store/mail/instances/instances.ts";
import { gather, noteEndedGrace, orRefuse, readGrace } from "../input.ts";
import { describeMissingMachines } from "../missing-machines.ts";
import { publishDkim } from "../publish-dkim.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";
import { registerInstanceCompanies } from "./instance-companies.ts";
import { registerDkimRotate, registerDomainSetup } from "./instance-domains.ts";

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
  registerFeedback(instance, runtime);
  registerInstanceCompanies(instance, runtime);
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
    .option("--domain <domain>", "a domain that it may send from (repeatable)", gather, [])
    .option("--key <key>", "its API key; a new random one unless given")
    .option("--archive", "grant the licence to archive what is sent", false)
    .option("--time-zone <zone>", "the zone of its timestamps, such as Europe/Madrid; UTC unless given")
    .description("add an instance; prints its key, once")
    .action(async (name: string, options: AddOptions) => {
      orRefuse(runtime, readInstanceName(name));
      const host = orRefuse(runtime, readInstanceHost(options.host));
      const key = readKey(runtime, options.key);
      const domains = [...new Set(options.domain.map((domain) => orRefuse(runtime, readNewSenderDomain(domain))))];
      const timeZone = options.timeZone === undefined ? undefined : orRefuse(runtime, readTimeZone(options.timeZone));
      await runtime.withDatabase(async (database) => {
        const added = { name, host, key, domains, archive: options.archive, timeZone };
        const conflict = await addInstance(database.db, database.keyRing, added);
        if (conflict) runtime.refuse(CONFLICTS[conflict]);
        // Before anything else: it is shown once.
        runtime.print({ name, host, key, domains }, key);
        const { id } = (await findInstanceByName(database.db, name)) as Instance;
        tell(runtime, await publishDkim(database, id, domains));
      });
    });
}

function registerList(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("list")
    .description("list the instances")
    .action(async () => {
      const instances = await runtime.withDatabase(async ({ db, config }) => {
        const missing = await describeMissingMachines(db, config);
        if (missing !== undefined) runtime.note(`palomar: ${missing}; their domains are not listed`);
        return listInstances(db);
      });
      const lines = instances.map(({ name, host, domains }) => [name, host, ...domains].join("\t"));
      runtime.print(
        instances.map(({ domains, ...one }) => toJson(one, domains)),
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
    .option(
      "--grace <time>",
      "how long the old key is accepted as well, such as 24h; not at all when not given; keys before it end at once",
    )
    .description("replace the API key; prints the new one, once")
    .action(async (name: string, options: { readonly key?: string; readonly grace?: string }) => {
      const key = readKey(runtime, options.key);
      const now = new Date();
      const graceUntil = readGrace(runtime, options.grace, now);
      await withInstance(runtime, name, async ({ db, keyRing }, { id }) => {
        const newKey = { keyHash: hashApiKey(keyRing, "instance", key), graceUntil };
        const replaced = (await rotateInstanceKey(db, id, newKey)) ?? runtime.refuse(CONFLICTS["key-taken"]);
        runtime.print({ name, key }, key);
        noteEndedGrace(runtime, replaced, now);
      });
    });
}

function registerDomainAdd(instance: Command, runtime: CommandRuntime): void {
  const command = instance.command("domain").description("the domains that it may send from");
  registerDomainSetup(command, runtime);
  command
    .command("add")
    .argument("<name>")
    .argument("<domain>")
    .description("allow a sender domain, make its DKIM key, and publish it where the zone is hosted here")
    .action(async (name: string, given: string) => {
      const domain = orRefuse(runtime, readNewSenderDomain(given));
      await withInstance(runtime, name, async (database, { id }) => {
        const { db, keyRing } = database;
        if (!(await addInstanceDomain(db, keyRing, id, domain))) runtime.refuse(`${name} has ${domain} already`);
        const domains = await allowedDomains(db, id);
        runtime.print({ name, domain, domains }, domains.join("\n"));
        tell(runtime, await publishDkim(database, id, [domain]));
      });
    });
}

function registerDkimShow(instance: Command, runtime: CommandRuntime): void {
  const command = instance.command("dkim").description("its DKIM keys");
  registerDkimRotate(command, runtime);
  command
    .command("show")
    .argument("<name>")
    .argument("[domain]", "only this one; all of them unless given")
    .description("print the TXT records that publish its DKIM keys; adds them to zones that are hosted here")
    .action(async (name: string, given?: string) => {
      const wanted = given === undefined ? undefined : orRefuse(runtime, readSenderDomain(given));
      await withInstance(runtime, name, async (database, { id }) => {
        const known = await listInstanceDomains(database.db, id);
        const asked = wanted === undefined ? known : known.filter(({ domain }) => domain === wanted);
        const [first, ...others] = asked.map(toDkimJson);
        if (first === undefined)
          runtime.refuse(given === undefined ? `${name} has no domain` : `${name} has no ${given}`);
        const lines = [first, ...others].map(toZoneFileLine).join("\n");
        runtime.print(others.length === 0 ? first : [first, ...others], lines);
        const domains = asked.map(({ domain }) => domain);
        tell(runtime, await publishDkim(database, id, domains));
      });
    });
}

function tell(runtime: CommandRuntime, lines: readonly string[]): void {
  for (const line of lines) runtime.note(line);
}

function toDkimJson({ domain, dkimSelector: selector, dkimRecord: value }: InstanceDomain) {
  return { domain, selector, name: `${selector}._domainkey.${domain}`, value };
}

/** One string holds 255 octets at most (RFC 1035 §3.3). */
function toZoneFileLine({ name, value }: ReturnType<typeof toDkimJson>): string {
  const strings = value.match(/.{1,255}/g)!.map((part) => `"${part}"`);
  return `${name}. TXT ${strings.join(" ")}`;
}

function registerSettings(instance: Command, runtime: CommandRuntime): void {
  const change = async (name: string, settings: InstanceSettings) => {
    const changed = await withInstance(runtime, name, async ({ db }, { id }) => {
      const conflict = await setInstanceSettings(db, id, settings);
      if (conflict) runtime.refuse(CONFLICTS[conflict]);
      const instance = (await findInstanceByName(db, name)) as Instance;
      return toJson(instance, await allowedDomains(db, id));
    });
    runtime.print(changed, JSON.stringify(changed, null, 2));
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
    .option("--host <host>", "the name under which its users reach the API; no longer the one before")
    .option("--time-zone <zone>", "the zone of its timestamps")
    .option("--archive <on|off>", "the licence to archive what is sent")
    .option("--records <on|off>", "let its users add records of its sender domains to zones hosted here")
    .option("--failure-reports <on|off>", "tell programs that submit mail and ask for no reports about failures")
    .option("--language <en|es>", "what reports to senders are written in")
    .option("--event-days <days>", "how long events are kept, or `forever`")
    .option("--archive-days <days>", "how long archived messages are kept, or `forever`")
    .option("--message-days <days>", `how long what was sent is kept: ${LEAST_MESSAGE_DAYS} or more, or \`forever\``)
    .description("change settings")
    .action((name: string, options: Readonly<Record<string, string | undefined>>) => {
      const read = <T>(value: string | undefined, parse: (runtime: CommandRuntime, text: string) => T) =>
        value === undefined ? undefined : parse(runtime, value);
      return change(name, {
        host: read(options.host, (_, text) => orRefuse(runtime, readInstanceHost(text))),
        timeZone: read(options.timeZone, (_, text) => orRefuse(runtime, readTimeZone(text))),
        archive: read(options.archive, readSwitch),
        createsRecords: read(options.records, readSwitch),
        failureReports: read(options.failureReports, readSwitch),
        language: read(options.language, readLanguage),
        eventRetentionDays: read(options.eventDays, readDays),
        archiveRetentionDays: read(options.archiveDays, readDays),
        messageRetentionDays: read(options.messageDays, readMessageDays),
      });
    });
}

function registerFeedback(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("feedback")
    .argument("<name>")
    .option("--id <on|off>", "messages carry Feedback-ID: campaign, batch, instance and deployment")
    .option("--address <on|off>", "messages carry CFBL-Address, for which the bounce domain signs as well")
    .description("what providers report about its mail by")
    .action((name: string, options: { readonly id?: string; readonly address?: string }) =>
      withInstance(runtime, name, async ({ db, config }, { id }) => {
        const read = (value: string | undefined) => (value === undefined ? undefined : readSwitch(runtime, value));
        const settings = { feedbackId: read(options.id), feedbackAddress: read(options.address) };
        // RFC 9477 §3.1.3: an address of another domain counts only with that domain's signature.
        if (settings.feedbackAddress && (await findHolderOf(db, config.bounceDomain)) === undefined) {
          runtime.refuse(
            `no instance has the bounce domain: palomar instance domain add <name> ${config.bounceDomain}`,
          );
        }
        await setInstanceSettings(db, id, settings);
        const { feedbackId, feedbackAddress } = (await findInstanceByName(db, name)) as Instance;
        const shown = { name, feedback_id: feedbackId, feedback_address: feedbackAddress };
        runtime.print(shown, JSON.stringify(shown, null, 2));
      }),
    );
}

function toJson(instance: Instance, domains: readonly string[]) {
  return {
    name: instance.name,
    host: instance.host,
    archive: instance.archive,
    time_zone: instance.timeZone,
    conversions: instance.conversions,
    event_days: instance.eventRetentionDays,
    archive_days: instance.archiveRetentionDays,
    message_days: instance.messageRetentionDays,
    records: instance.createsRecords,
    failure_reports: instance.failureReports,
    language: instance.language,
    domains,
  };
}

function readKey(runtime: CommandRuntime, given: string | undefined): string {
  return given === undefined ? makeApiKey() : orRefuse(runtime, readChosenKey("key", given));
}

export function readSwitch(runtime: CommandRuntime, given: string): boolean {
  return given === "on" || given === "off" ? given === "on" : runtime.misused(`${given} is neither on nor off`);
}

function readLanguage(runtime: CommandRuntime, given: string): ReportLanguage {
  const known = REPORT_LANGUAGES.find((language) => language === given);
  return known ?? runtime.misused(`${given} is neither en nor es`);
}

function readDays(runtime: CommandRuntime, given: string): number | null {
  if (given === "forever") return null;
  return /^[1-9]\d{0,4}$/.test(given) ? Number(given) : runtime.misused(`${given} is no number of days`);
}

function readMessageDays(runtime: CommandRuntime, given: string): number | null {
  const days = readDays(runtime, given);
  if (days === null || days >= LEAST_MESSAGE_DAYS) return days;
  return runtime.misused(`unsubscribe links have to work for ${LEAST_MESSAGE_DAYS} days after the sending`);
}
