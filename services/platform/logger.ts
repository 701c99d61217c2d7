import { type Logger, pino } from "pino";

export type { Logger } from "pino";

/** Structured log lines on standard error, so that standard output stays with what a command prints. */
export function makeLogger(service: string, level: string): Logger {
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: ["key", "apikey", "password", "secret", "headers.authorization"],
    },
    pino.destination({ dest: 2, sync: true }),
  );
}
