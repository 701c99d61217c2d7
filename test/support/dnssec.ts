import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isInstalled } from "./peers-processes.ts";

/** A foreign program that checks a signed zone. */
export interface ZoneVerifier {
  readonly program: string;
  /** Whether it can judge signatures at another moment than the present. */
  readonly takesTime: boolean;
  /** @param at the moment to judge signatures at */
  readonly args: (zone: string, file: string, at: Date) => readonly string[];
}

/** The checkers of BIND, NLnet Labs and Knot. */
export const ZONE_VERIFIERS: readonly ZoneVerifier[] = [
  { program: "dnssec-verify", takesTime: false, args: (zone, file) => ["-q", "-z", "-o", zone, file] },
  { program: "ldns-verify-zone", takesTime: true, args: (_, file, at) => ["-t", timestamp(at), file] },
  {
    program: "kzonecheck",
    takesTime: true,
    args: (zone, file, at) => ["--dnssec", "on", "-t", String(Math.floor(at.getTime() / 1000)), "-o", zone, file],
  },
];

/**
 * What an installed checker has against a zone, by the checker; empty when all are content.
 * @param at the moment to judge signatures at
 */
export function complaintsAbout(zone: string, text: string, at = new Date()): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-dnssec-"));
  const file = join(folder, "zone");
  writeFileSync(file, text);
  const hasTwoCombinedKeys = (text.match(/\tDNSKEY\t257 /g)?.length ?? 0) > 1 && !/\tDNSKEY\t256 /.test(text);
  const complaints: Record<string, string> = {};
  const isPresent = Math.abs(at.getTime() - Date.now()) < CLOCK_TOLERANCE_MS;
  const able = ZONE_VERIFIERS.filter(
    ({ program, takesTime }) =>
      isInstalled(program) &&
      (takesTime || isPresent) &&
      // Version 3.2 takes no zone with two combined keys, that of dnssec-signzone neither.
      !(program === "kzonecheck" && hasTwoCombinedKeys),
  );
  for (const { program, args } of able) {
    const run = spawnSync(program, args(zone, file, at), { encoding: "utf8" });
    if (run.status !== 0) complaints[program] = `${run.stdout}${run.stderr}`;
  }
  rmSync(folder, { recursive: true, force: true });
  return complaints;
}

/** Signatures are made so that they hold for clocks that are this much behind, and more. */
const CLOCK_TOLERANCE_MS = 1_800_000;

/** `YYYYMMDDhhmmss` in UTC. */
function timestamp(at: Date): string {
  return at.toISOString().replace(/\D/g, "").slice(0, 14);
}
