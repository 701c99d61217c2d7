import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How the zone denies; opt-out leaves unsigned delegations out of the chain (RFC 5155 §6). */
export const DENIALS = ["nsec", "nsec3", "nsec3-opt-out"] as const;
export type Denial = (typeof DENIALS)[number];

/** Options of `dnssec-signzone`; the one with salt and iterations is what RFC 9276 advises against and zones still have. */
const DENIAL_OPTIONS: { readonly [denial in Denial]: readonly string[] } = {
  nsec: [],
  nsec3: ["-3", "-", "-H", "0"],
  "nsec3-opt-out": ["-3", "abcd", "-H", "3", "-A"],
};

export interface SignedZone {
  /** Without the final dot. */
  readonly name: string;
  /** Master file, absolute names throughout. */
  readonly text: string;
  /** The DNSKEY record of the key-signing key: what a validator takes as trust anchor. */
  readonly anchor: string;
  /** The DS record of that key, for the parent. */
  readonly ds: string;
}

/** Signs a zone with BIND's tools: one key-signing and one zone-signing key of algorithm 13. */
export function signZone(name: string, text: string, denial: Denial): SignedZone {
  const folder = mkdtempSync(join(tmpdir(), "palomar-signed-"));
  try {
    const run = (program: string, ...args: string[]) => {
      const { status, stdout, stderr } = spawnSync(program, args, {
        cwd: folder,
        encoding: "utf8",
        env: TOOL_ENVIRONMENT,
      });
      if (status !== 0) throw new Error(`${program}: ${stderr}`);
      return stdout;
    };
    writeFileSync(join(folder, "zone"), `$ORIGIN ${name}.\n${text}`);
    run("dnssec-keygen", "-q", "-a", "13", "-f", "KSK", name);
    run("dnssec-keygen", "-q", "-a", "13", name);
    run(SIGNING_PROGRAM, "-S", "-q", "-O", "full", ...DENIAL_OPTIONS[denial], "-o", name, "-f", "signed", "zone");
    const keys = readdirSync(folder).filter((file) => file.endsWith(".key"));
    const records = keys.map((file) => /^[^;].*$/m.exec(readFileSync(join(folder, file), "utf8"))?.[0] ?? "");
    const index = records.findIndex((record) => record.includes("DNSKEY 257"));
    const ds = run("dnssec-dsfromkey", "-2", keys[index]!).trim();
    return { name, text: readFileSync(join(folder, "signed"), "utf8"), anchor: records[index]!, ds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What signs a zone. */
export const SIGNING_PROGRAM = "dnssec-signzone";

/** Debian keeps the tools where users do not look. */
const TOOL_ENVIRONMENT = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
