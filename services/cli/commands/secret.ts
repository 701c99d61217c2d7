import { randomBytes } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Argument, type Command } from "commander";
import { formatKeyFile } from "../../core/key-file.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { findKeys } from "../../platform/config/secret.ts";
import { SERVICE_NAMES } from "../../platform/service.ts";
import { completeKeyRing, replaceLostKeys } from "../../store/deployment-keys.ts";
import { resealAll } from "../../store/sealed-values.ts";
import type { CommandRuntime } from "../runtime.ts";

/** The sandbox's inbox runs beside delivery, and has no keys of its own. */
const SERVICES = SERVICE_NAMES.filter((name) => name !== "sandbox");

export function registerSecretCommand(program: Command, runtime: CommandRuntime): void {
  const secret = program.command("secret").description("the secret that every key is derived from");
  secret
    .command("reseal")
    .description("seal what is stored with PALOMAR_SECRET anew, so that PALOMAR_SECRET_PREVIOUS may be forgotten")
    .action(async () => {
      wholeKeyRing(runtime);
      if (runtime.config.previousSecrets.length === 0) runtime.refuse("PALOMAR_SECRET_PREVIOUS is not set");
      const resealed = await runtime.withDatabase(({ db, keyRing }) => resealAll(db, keyRing));
      const lines = Object.entries(resealed).map(([column, count]) => `${column}\t${count}`);
      runtime.print({ resealed }, lines.join("\n"));
    });
  registerForget(secret, runtime);
  secret
    .command("keys")
    .addArgument(new Argument("<service>", "which one").choices(SERVICES))
    .option("--out <file>", "write them there, with mode 0600, instead of printing them")
    .description("the keys that one service needs, derived from PALOMAR_SECRET: for its PALOMAR_KEYS_FILE")
    .action(async (service: string, { out }: { out?: string }) => {
      const keys = formatKeyFile(wholeKeyRing(runtime), service);
      if (out === undefined) return runtime.print({ service, keys }, keys);
      await writePrivateFile(runtime, out, keys);
      runtime.print({ service, file: out }, out);
    });
  secret
    .command("split")
    .argument("<folder>", "where to; made with mode 0700 when it is not there")
    .description("write the keys of every service into <folder>/keys_<service> (its - as _), each with mode 0600")
    .action(async (folder: string) => {
      const keyRing = wholeKeyRing(runtime);
      await mkdir(folder, { recursive: true, mode: 0o700 }).catch(cannotWrite(runtime, folder));
      const files = SERVICES.map((service) => [service, join(folder, keyFileName(service))] as const);
      for (const [service, file] of files) await writePrivateFile(runtime, file, formatKeyFile(keyRing, service));
      runtime.print({ files: Object.fromEntries(files) }, files.map(([, file]) => file).join("\n"));
    });
}

function registerForget(secret: Command, runtime: CommandRuntime): void {
  secret
    .command("forget")
    .requiredOption("--confirm", "that it is lost for good, and with it every key and password that it sealed")
    .description("go on with PALOMAR_SECRET on a database whose own secret is lost")
    .action(async () => {
      wholeKeyRing(runtime);
      await runtime.withDatabase(
        async () => {},
        async (db, keyRing) => {
          if (await replaceLostKeys(db, keyRing)) return completeKeyRing(db, keyRing);
          return runtime.refuse("nothing is lost: PALOMAR_SECRET is the secret of this database");
        },
      );
      runtime.print({ forgotten: true }, "every key and password is to be made anew: see docs/operations.md");
    });
}

/** As `deploy/prepare` names them. */
export function keyFileName(service: string): string {
  return `keys_${service.replaceAll("-", "_")}`;
}

/** All keys: only the secret gives those of other services, and of the past. */
function wholeKeyRing(runtime: CommandRuntime): KeyRing {
  const keyRing = findKeys(runtime.config);
  return keyRing.secretCount > 0 ? keyRing : runtime.refuse("PALOMAR_KEYS are not enough: this needs PALOMAR_SECRET");
}

/** Whole or not at all, in the place of what is there: a service that starts meanwhile reads the one or the other. */
async function writePrivateFile(runtime: CommandRuntime, file: string, content: string): Promise<void> {
  const draft = `${file}.${randomBytes(4).toString("hex")}`;
  try {
    const handle = await open(draft, "wx", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    cannotWrite(runtime, file)(error as Error);
  }
}

function cannotWrite(runtime: CommandRuntime, file: string): (error: Error) => never {
  return (error) => runtime.refuse(`${file} cannot be written: ${error.message}`);
}
