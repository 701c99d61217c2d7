import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEFAULT_TCP_LIMITS } from "../../services/dns-server/listeners/listen-tcp.ts";
import { MOST_HEADER_FIELDS } from "../../services/platform/http/broken-requests.ts";
import { HTTP_TIMEOUTS, UPLOAD_TIMEOUTS } from "../../services/platform/http/listen.ts";
import { LEAST_OCTETS_PER_SECOND } from "../../services/platform/http/reading-pace.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { SMTP_LIMITS } from "../../services/platform/smtp/limits.ts";

/** The cells of a listener's row in docs/security.md. */
function rowOf(listener: string): readonly string[] {
  const document = readFileSync(join(packageFolder, "docs/security.md"), "utf8");
  const row = document.split("\n").find((line) => line.startsWith(`| ${listener}`));
  return row?.split(" | ").slice(1) ?? [];
}

const seconds = (ms: number) => `${ms / 1_000} s`;
const minutes = (ms: number) => `${ms / 60_000} minutes`;
const amount = (count: number) => count.toLocaleString("en-US");

test.each([
  [
    "HTTP:",
    [
      "",
      "",
      `${MOST_HEADER_FIELDS} fields, ${seconds(HTTP_TIMEOUTS.headersMs)}`,
      seconds(HTTP_TIMEOUTS.requestMs),
      seconds(HTTP_TIMEOUTS.keepAliveMs),
      "",
    ],
  ],
  ["HTTP:", ["", "", "", `lists that the console imports ${minutes(UPLOAD_TIMEOUTS.requestMs)}`, "", ""]],
  [
    "HTTP:",
    ["", "", "", `${LEAST_OCTETS_PER_SECOND / 1_024} KiB/s, when ${seconds(HTTP_TIMEOUTS.unreadMs)} behind`, "", ""],
  ],
  [
    "SMTP:",
    [
      `${SMTP_LIMITS.connectionsPerSource} a client, ${amount(SMTP_LIMITS.connections)} in all`,
      seconds(SMTP_LIMITS.handshakeMs),
      `line ${amount(SMTP_LIMITS.commandOctets)} octets, ${seconds(SMTP_LIMITS.commandLineMs)}`,
      `${amount(SMTP_LIMITS.dataOctetsPerSecond)} octets/s, never more than ${seconds(SMTP_LIMITS.dataGraceMs)} behind`,
      minutes(SMTP_LIMITS.nextCommandMs),
      `${minutes(SMTP_LIMITS.withoutMessageMs)} without a message; ${SMTP_LIMITS.idleCommands} commands of no use`,
    ],
  ],
  ...["DNS over TCP and TLS", "DNS over HTTPS"].map((listener) => {
    const { connections, connectionsPerClient, idleMs } = DEFAULT_TCP_LIMITS;
    const caps = `${connectionsPerClient} a client, ${amount(connections)} in all`;
    return [listener, [caps, seconds(idleMs), seconds(idleMs), "", seconds(idleMs), ""]] as const;
  }),
] as const)("docs/security.md says the limits in force of %s", (listener, expected) => {
  const row = rowOf(listener);
  expect(row).toHaveLength(expected.length);
  for (const [column, text] of expected.entries()) expect(row[column]).toContain(text);
});
