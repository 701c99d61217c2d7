import { Argument, type Command } from "commander";
import { makeLogger } from "../../platform/logger.ts";
import { SERVICE_NAMES, type ServiceName } from "../../platform/service.ts";
import type { CommandRuntime } from "../runtime.ts";
import { startStack } from "../stack.ts";

const INTERRUPTED = 130;

export function registerStartCommand(program: Command, runtime: CommandRuntime): void {
  const nameable = SERVICE_NAMES.filter((name) => name !== "sandbox");
  program
    .command("start")
    .addArgument(new Argument("[service...]", "all services when none is named").choices(nameable))
    .description("run services until SIGINT or SIGTERM")
    .action(async (named: ServiceName[]) => {
      // From here on a signal stops what has been started, however far the start has come.
      const stopSignal = nextSignal();
      const logger = makeLogger("supervisor", runtime.config.logLevel);
      const stack = await startStack(runtime.config, named.length > 0 ? named : SERVICE_NAMES, logger);
      process.stdout.write(stack.banner);
      await stopSignal;
      nextSignal().then(() => {
        stack.kill();
        process.exit(INTERRUPTED);
      });
      await stack.stop();
      process.exit(0);
    });
}

function nextSignal(): Promise<void> {
  return new Promise((resolve) => {
    const heard = () => {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.off(signal, heard);
      resolve();
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, heard);
  });
}
