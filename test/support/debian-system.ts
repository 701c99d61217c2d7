import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { whyNoNetwork } from "./network.ts";
import { isInstalled } from "./peers-processes.ts";

/** What stays from run to run. */
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "palomar-containers");
/** For a Node that is bound into the system. */
const NODE_NEEDS = ["libstdc++6", "libatomic1"];

/** Why no machines can be played here that have a system of their own; undefined where they can. */
export function whyNoSystem(programs: readonly string[] = []): string | undefined {
  const missing = ["mmdebstrap", "nsenter", "unshare", ...programs].filter((name) => !isInstalled(name));
  return whyNoNetwork ?? (missing.length > 0 ? `not installed: ${missing.join(", ")}` : undefined);
}

/** @returns a folder with Debian 13 and these packages of it, which is only to be read */
export function makeDebian(packages: readonly string[]): string {
  const wanted = [...packages, ...NODE_NEEDS].join(",");
  const place = join(CACHE, `debian-${createHash("sha256").update(wanted).digest("hex").slice(0, 12)}`);
  if (existsSync(place)) return place;
  mkdirSync(CACHE, { recursive: true });
  rmSync(`${place}.new`, { recursive: true, force: true });
  const words = ["--quiet", "--variant=minbase", `--include=${wanted}`, "trixie", `${place}.new`];
  execFileSync("mmdebstrap", words, { stdio: ["ignore", "ignore", "pipe"] });
  renameSync(`${place}.new`, place);
  return place;
}
