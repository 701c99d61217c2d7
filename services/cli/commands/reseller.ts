import { type Command, Option } from "commander";
import { hashApiKey, makeApiKey } from "../../core/api-key.ts";
import { counted } from "../../core/counted.ts";
import { readChosenKey, readResellerId } from "../../core/customer-input.ts";
import { deleteReseller } from "../../operations/dns/resellers.ts";
import { systemClock } from "../../platform/clock.ts";
import { addReseller, listResellers, setRpzLicence } from "../../store/dns/resellers.ts";
import { rotateResellerKey } from "../../store/key-rotation.ts";
import { noteEndedGrace, orRefuse, readGrace } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";
import { registerResellerQuota } from "./quota.ts";

/** `palomar reseller`: who may use the DNS API. */
export function registerResellerCommand(program: Command, runtime: CommandRuntime): void {
  const reseller = program.command("reseller").description("resellers of the DNS side");
  registerAdd(reseller, runtime);
  registerList(reseller, runtime);
  registerKeyRotate(reseller, runtime);
  registerLicence(reseller, runtime);
  registerRemove(reseller, runtime);
  registerResellerQuota(reseller, runtime);
}

function registerAdd(reseller: Command, runtime: CommandRuntime): void {
  reseller
    .command("add")
    .argument("<reseller_id>")
    .requiredOption("--name <name>", "what the reseller is called")
    .option("--key <key>", "the API key; a random one when not given")
    .option("--rpz", "with the licence for response policy zones", false)
    .description("add a reseller; prints its key, once")
    .action(async (id: string, options: { name: string; key?: string; rpz: boolean }) => {
      orRefuse(runtime, readResellerId(id));
      if (options.name.trim() === "") runtime.refuse("--name must not be empty");
      const key = options.key === undefined ? makeApiKey() : orRefuse(runtime, readChosenKey("key", options.key));
      const added = await runtime.withDatabase(({ db, keyRing }) =>
        addReseller(db, { id, name: options.name, rpzLicence: options.rpz, keyHash: hashApiKey(keyRing, "dns", key) }),
      );
      if (!added) runtime.refuse(`reseller ${id} already exists`);
      runtime.print({ reseller_id: id, key }, `${id} ${key}`);
    });
}

function registerList(reseller: Command, runtime: CommandRuntime): void {
  reseller
    .command("list")
    .description("list resellers")
    .action(async () => {
      const resellers = await runtime.withDatabase(({ db }) => listResellers(db));
      const rows = resellers.map(({ id, name, rpzLicence }) => ({ reseller_id: id, name, rpz: rpzLicence }));
      runtime.print(rows, rows.map((row) => `${row.reseller_id}\t${row.name}${row.rpz ? "\trpz" : ""}`).join("\n"));
    });
}

function registerKeyRotate(reseller: Command, runtime: CommandRuntime): void {
  reseller
    .command("key")
    .description("API keys of resellers")
    .command("rotate")
    .argument("<reseller_id>")
    .option(
      "--grace <time>",
      "how long the old key is accepted as well, such as 24h; not at all when not given; keys before it end at once",
    )
    .description("replace the key; prints the new one, once")
    .action(async (id: string, options: { readonly grace?: string }) => {
      const key = makeApiKey();
      const now = new Date();
      const graceUntil = readGrace(runtime, options.grace, now);
      const replaced = await runtime.withDatabase(({ db, keyRing }) =>
        rotateResellerKey(db, id, { keyHash: hashApiKey(keyRing, "dns", key), graceUntil }),
      );
      if (!replaced) return runtime.refuse(`reseller ${id} does not exist`);
      runtime.print({ reseller_id: id, key }, `${id} ${key}`);
      noteEndedGrace(runtime, replaced, now);
    });
}

function registerLicence(reseller: Command, runtime: CommandRuntime): void {
  reseller
    .command("licence")
    .argument("<reseller_id>")
    .addOption(new Option("--rpz <state>", "whether it has the licence").choices(["on", "off"]).makeOptionMandatory())
    .description("give or take the licence for response policy zones")
    .action(async (id: string, options: { rpz: "on" | "off" }) => {
      const rpz = options.rpz === "on";
      const known = await runtime.withDatabase(({ db }) => setRpzLicence(db, id, rpz));
      if (!known) runtime.refuse(`reseller ${id} does not exist`);
      runtime.print({ reseller_id: id, rpz }, `${id} rpz ${options.rpz}`);
    });
}

function registerRemove(reseller: Command, runtime: CommandRuntime): void {
  reseller
    .command("remove")
    .argument("<reseller_id>")
    .requiredOption("--confirm <reseller_id>", "the id once more: nothing brings its zones back but a backup")
    .description(
      "delete a reseller with its companies and zones, some zones at a time; stopped halfway, it goes on when run again",
    )
    .action(async (id: string, options: { readonly confirm: string }) => {
      if (options.confirm !== id) runtime.refuse(`--confirm says ${options.confirm}, not ${id}`);
      const zones = orRefuse(
        runtime,
        await runtime.withDatabase(({ db, keyRing }) => deleteReseller(db, id, { keyRing, clock: systemClock })),
      );
      runtime.print({ reseller_id: id, zones }, `${id} removed, with ${counted(zones, "zone")}`);
    });
}
