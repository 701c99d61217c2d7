import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { judgeByAuthheaders } from "./authheaders.ts";
import type { JudgedMail, JudgeName, JudgeSurroundings, Verdict } from "./judge.ts";
import { startRspamd } from "./rspamd.ts";
import { judgeBySpamAssassin } from "./spamassassin.ts";

/** Where judges keep what they need, in the data folder of a deployment. */
export function judgesFolder(dataDir: string): string {
  return join(dataDir, "judges");
}

/** Has every judge that is installed on this machine look at a message, side by side; none of them is told on. */
export async function judgeMail(mail: JudgedMail, surroundings: JudgeSurroundings): Promise<Verdict[]> {
  await mkdir(surroundings.folder, { recursive: true, mode: 0o700 });
  const of = (name: string): JudgeSurroundings => ({ ...surroundings, folder: join(surroundings.folder, name) });
  return Promise.all([
    orFailed("rspamd", judgeByRspamd(mail, of("rspamd"))),
    orFailed("spamassassin", judgeBySpamAssassin(mail, surroundings)),
    orFailed("authheaders", judgeByAuthheaders(mail, surroundings)),
  ]);
}

async function judgeByRspamd(mail: JudgedMail, surroundings: JudgeSurroundings): Promise<Verdict> {
  const rspamd = await startRspamd(surroundings);
  if (rspamd === undefined) return { judge: "rspamd", kind: "absent" };
  try {
    return await rspamd.judge(mail);
  } finally {
    await rspamd.stop();
  }
}

/** What goes wrong with one of them is no reason to hear none. */
function orFailed(judge: JudgeName, verdict: Promise<Verdict>): Promise<Verdict> {
  return verdict.catch((error: Error) => ({ judge, kind: "failed", words: error.message }));
}
