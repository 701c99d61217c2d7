import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startRspamd } from "../../../../services/platform/judges/rspamd.ts";
import { eventually } from "../../../support/stack.ts";

/** Our children that were told of a folder. */
function childrenAt(folder: string): number[] {
  try {
    return execFileSync("pgrep", ["-P", String(process.pid), "-f", folder])
      .toString()
      .split("\n")
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}

test.skipIf(!existsSync("/etc/rspamd/common.conf"))(
  "an rspamd that is killed at its start is not waited for (skipped where it is not installed)",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "palomar-rspamd-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const start = startRspamd({ resolver: null, folder });
    start.catch(() => {});
    const [child] = await eventually(
      async () => childrenAt(folder),
      ({ length }) => length > 0,
    );
    process.kill(child!, "SIGKILL");
    await expect(start).rejects.toThrow("rspamd does not start");
  },
);
