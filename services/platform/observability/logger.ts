import { type DestinationStream, type Logger, pino } from "pino";

export type { Logger } from "pino";

/** What a line never shows, and what lies a level deeper neither. */
const SECRET = ["key", "apikey", "password", "secret", "authorization", "cookie"];

/** Structured log lines on standard error, so that standard output stays with what a command prints. */
export function makeLogger(
  service: string,
  level: string,
  destination: DestinationStream = pino.destination({ dest: 2, sync: true }),
): Logger {
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: SECRET.flatMap((name) => [name, `*.${name}`]),
    },
    destination,
  );
}
