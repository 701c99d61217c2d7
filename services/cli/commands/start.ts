import { Argument, type Command } from "commander";
import { secretFiles } from "../../platform/config/config.ts";
import { listExposedFiles } from "../../platform/config/secret.ts";
import { makeLogger } from "../../platform/observability/logger.ts";
import { SERVICE_NAMES, type ServiceName } from "../../platform/service.ts";
import type { CommandRuntime } from "../runtime.ts";
import { checkSurroundings, Stack } from "../stack.ts";

const INTERRUPTED = 130;
/** A terminal's Ctrl-C comes twice through npm, which passes on what the terminal has told everybody. */
const SAME_SIGNAL_MS = 1_000;

export function registerStartCommand(program: Command, runtime: CommandRuntime): void {
  const nameable = SERVICE_NAMES.filter((name) => name !== "sandbox");
  program
    .command("start")
    .addArgument(new Argument("[service...]", "all services when none is named").choices(nameable))
    .description("run services until SIGINT or SIGTERM")
    .action(async (named: ServiceName[]) => {
      const services = named.length > 0 ? named : SERVICE_NAMES;
      for (const exposed of listExposedFiles(secretFiles())) runtime.note(`palomar: ${exposed}`);
      const problems = await checkSurroundings(runtime.config, services);
      if (problems.length > 0) runtime.misused(problems.join("\npalomar: "));
      const logger = makeLogger("supervisor", runtime.config.logLevel);
      const stack = new Stack(runtime.config, services, logger);
      const asked = listenForSignals(stack);
      // A signal stops what has been started, however far the start has come.
      const banner = await Promise.race([stack.start(), asked]);
      if (banner !== undefined) process.stdout.write(banner);
      await asked;
      await stack.stop();
      process.exit(0);
    });
}

/** Resolves at the first signal; a second one ends every service at once and leaves the rest to the next start. */
function listenForSignals(stack: Stack): Promise<undefined> {
  let heardAt: number | undefined;
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => {
        heardAt ??= performance.now();
        resolve(undefined);
        if (performance.now() - heardAt < SAME_SIGNAL_MS) return;
        stack.kill();
        process.exit(INTERRUPTED);
      });
    }
  });
}
