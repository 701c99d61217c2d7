import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

/** Scores that a subject asks for: what the sandbox of a content filter finds, whatever the message says beside. */
const SANDBOX_RULES = `
rspamd_config:register_symbol({
  name = "SANDBOX_SCORE", score = 1.0, type = "normal",
  callback = function(task)
    local asked = string.match(task:get_subject() or "", "score (%d+)")
    if asked then return true, tonumber(asked), asked end
    return false
  end
})
`;

const antivirus = (clamd: string) => `
modules { path = "/usr/share/rspamd/plugins/antivirus.lua"; }
antivirus { clamav { type = "clamav"; servers = "${clamd}"; symbol = "CLAM_VIRUS"; action = "reject"; } }
`;

export const isRspamdInstalled = existsSync("/usr/bin/rspamd");
/** Refused whatever else is in it: https://spamassassin.apache.org/gtube/ */
export const GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

export interface TestRspamd {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * The real rspamd with the sandbox's rules alone: it looks nothing up.
 * @param clamd address of the scanner for viruses that it asks in its turn; without it, it asks none
 */
export async function startRspamd(clamd?: string): Promise<TestRspamd> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-rspamd-"));
  const port = await freePort();
  writeFileSync(join(folder, "rules.lua"), SANDBOX_RULES);
  writeFileSync(join(folder, "suffixes"), "example\nnet\norg\ntest\n");
  writeFileSync(
    join(folder, "rspamd.conf"),
    `options { pidfile = "${folder}/pid"; filters = ""; url_tld = "${folder}/suffixes"; gtube_patterns = "all";
       dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 1; } hs_cache_dir = "${folder}"; }
     logging { type = "console"; level = "error"; }
     worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
     actions { reject = 15; add_header = 6; greylist = 4; }
     lua = "${folder}/rules.lua";\n${clamd === undefined ? "" : antivirus(clamd)}`,
  );
  // As root it asks to be told that it may stay so.
  const child = spawn("rspamd", ["-f", "-i", "-c", join(folder, "rspamd.conf")], { stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  await eventually(
    () =>
      fetch(`${url}/ping`).then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 200,
    240_000,
  );
  return {
    url,
    stop: async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
