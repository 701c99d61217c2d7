import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import { type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import { toFullContactJson, toMarkedEventJson } from "../../core/mail/contact-json.ts";
import { formatTimestamp } from "../../core/mail/timestamps.ts";
import { eraseAddress, isNothing } from "../../operations/mail/contact-erasure.ts";
import { type AddressRecords, exportContacts, readAddressRecords } from "../../operations/mail/contact-export.ts";
import { importContacts } from "../../operations/mail/contact-import.ts";
import { openInput, printCsv, printImport, readAll } from "../csv.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";

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
    .description(
      "create and update contacts from CSV; groups are parted by |, a name has its own as \\| and its \\ as \\\\",
    )
    .action(async (name: string, file: string, options: { readonly dryRun: boolean }) => {
      const csv = await openInput(runtime, file);
      const report = await withInstance(runtime, name, ({ db }, { id }) => importContacts(db, id, csv, options));
      printImport(runtime, report);
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
    .option("--keep-out", "keep a digest of the address, so that it is not mailed again however it comes back", false)
    .description(
      "remove everything held on an address, for good; copies (cc, bcc) that still wait of a message to it show what was for it, and are cancelled as well",
    )
    .action(async (name: string, email: string, options: { readonly keepOut: boolean }) => {
      const address = readAddress(runtime, email);
      const erasure = await withInstance(runtime, name, ({ db }, { id }) => eraseAddress(db, id, address, options));
      if (isNothing(erasure)) runtime.refuse(`${name} holds nothing on ${email}`);
      const { contacts, events, messages } = erasure;
      runtime.print(
        { email, contacts, events, messages },
        `${email}: ${counted(events, "event")}, ${counted(messages, "message")} erased`,
      );
    });
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
    contacto: contact === undefined ? null : toFullContactJson(contact, events, timeZone),
    eventos: events.map((event) => toMarkedEventJson(event, timeZone)),
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
