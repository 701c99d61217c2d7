import type { Command } from "commander";
import { resealAll } from "../../store/sealed-values.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerSecretCommand(program: Command, runtime: CommandRuntime): void {
  const secret = program.command("secret").description("the secret that keys every token");
  secret
    .command("reseal")
    .description("seal what is stored with PALOMAR_SECRET anew, so that PALOMAR_SECRET_PREVIOUS may be forgotten")
    .action(async () => {
      if (runtime.config.previousSecrets.length === 0) runtime.refuse("PALOMAR_SECRET_PREVIOUS is not set");
      const resealed = await runtime.withDatabase(({ db, secret: keyring }) => resealAll(db, keyring));
      const lines = Object.entries(resealed).map(([column, count]) => `${column}\t${count}`);
      runtime.print({ resealed }, lines.join("\n"));
    });
}
