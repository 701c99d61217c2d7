import { once } from "node:events";
import { createReadStream } from "node:fs";
import type { Command } from "commander";
import { type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import { toContactEventJson, toContactJson } from "../../core/mail/contact-json.ts";
import { formatTimestamp } from "../../core/mail/timestamps.ts";
import { eraseAddress, isNothing } from "../../operations/mail/contact-erasure.ts";
import { type AddressRecords, exportContacts, readAddressRecords } from "../../operations/mail/contact-export.ts";
import { importContacts } from "../../operations/mail/contact-import.ts";
import { cannotRead, refuseFolder } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "./instance.ts";

/** `palomar contact …`: an instance's contacts in bulk, and what is held on one address. */
export function registerContactCommand(program: Command, runtime: CommandRuntime): void {
  const contact = program.command("contact").description("contacts of an instance");
  registerImport(contact, runtime);
  registerExport(contact, runtime, () => program.opts().json === true);
  registerErase(contact, runtime);
}

function registerImport(contact: Command, runtime: CommandRuntime): void {
  contact
    .command("import")
    .argument("<instance>")
    .argument("<file>", "CSV with a header of API field names; - reads standard input")
    .option("--dry-run", "report what would be done, and change nothing", false)
    .description("create and update contacts from CSV")
    .action(async (name: string, file: string, options: { readonly dryRun: boolean }) => {
      const csv = await openInput(runtime, file);
      const report = await withInstance(runtime, name, ({ db }, { id }) => importContacts(db, id, csv, options));
      const { created, updated, rejected } = report;
      const errors = report.errors.map(({ line, reason }) => ({ line, on: reason.message }));
      const lines = [
        `${created} created, ${updated} updated, ${rejected} rejected`,
        ...errors.map(({ line, on }) => `line ${line}: ${on}`),
      ];
      runtime.print({ ...report, errors }, lines.join("\n"));
      if (errors.length > 0) runtime.exitWith(1);
    });
}

function registerExport(contact: Command, runtime: CommandRuntime, wantsJson: () => boolean): void {
  contact
    .command("export")
    .argument("<instance>")
    .argument("[email]", "everything held on this address, as JSON, instead of all contacts as CSV")
    .description("print contacts")
    .action(async (name: string, email?: string) => {
      if (email === undefined) {
        await withInstance(runtime, name, async ({ db }, { id }) => {
          const lines = exportContacts(db, id);
          if (wantsJson()) runtime.print({ name, csv: await readAll(lines) }, "");
          else await printCsv(lines);
        });
        return;
      }
      const address = readAddress(runtime, email);
      const json = await withInstance(runtime, name, async ({ db }, { id, timeZone }) => {
        const records = await readAddressRecords(db, id, address);
        return isSomething(records) ? toJson(records, timeZone) : runtime.refuse(`${name} holds nothing on ${email}`);
      });
      runtime.print(json, JSON.stringify(json, null, 2));
    });
}

function registerErase(contact: Command, runtime: CommandRuntime): void {
  contact
    .command("erase")
    .argument("<instance>")
    .argument("<email>")
    .description("remove everything held on an address, for good")
    .action(async (name: string, email: string) => {
      const address = readAddress(runtime, email);
      const erasure = await withInstance(runtime, name, ({ db }, { id }) => eraseAddress(db, id, address));
      if (isNothing(erasure)) runtime.refuse(`${name} holds nothing on ${email}`);
      const { contacts, events, messages } = erasure;
      runtime.print({ email, contacts, events, messages }, `${email}: ${events} events, ${messages} messages erased`);
    });
}

async function openInput(runtime: CommandRuntime, file: string) {
  if (file === "-") return process.stdin;
  refuseFolder(runtime, file);
  const stream = createReadStream(file);
  await once(stream, "open").catch(cannotRead(runtime, file));
  return stream;
}

async function printCsv(lines: AsyncIterable<string>): Promise<void> {
  for await (const line of lines) {
    if (!process.stdout.write(line)) await once(process.stdout, "drain");
  }
}

async function readAll(lines: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const line of lines) text += line;
  return text;
}

function readAddress(runtime: CommandRuntime, email: string): EmailAddress {
  const address = validateAddress(email, { allowSmtputf8: true });
  return address.ok ? address.value : runtime.refuse(address.error.message);
}

function isSomething({ contact, events, whitelisted, messages }: AddressRecords): boolean {
  return contact !== undefined || whitelisted || events.length + messages.length > 0;
}

function toJson({ contact, events, whitelisted, messages, returned }: AddressRecords, timeZone: string) {
  return {
    contacto: contact === undefined ? null : toContactJson(contact, events, timeZone),
    eventos: events.map((event) => toContactEventJson(event, timeZone)),
    whitelist: whitelisted,
    mensajes: messages.map(({ eeid, recipient, acceptedAt, octets }) => ({
      eeid,
      email: recipient,
      timestamp: formatTimestamp(acceptedAt, timeZone),
      eml: octets === null ? null : octets.toString("utf8"),
    })),
    devueltos: returned.map(({ eeid, receivedAt, octets }) => ({
      eeid,
      timestamp: formatTimestamp(receivedAt, timeZone),
      eml: octets.toString("utf8"),
    })),
  };
}
