import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { findResolverAddress } from "../lookups/resolver-server.ts";
import { askRspamd, type RspamdAnswer } from "../lookups/rspamd.ts";
import { type JudgedMail, type JudgeSurroundings, objectionsOf, type Verdict } from "./judge.ts";
import { PROGRAM_PATH } from "./run-program.ts";

const RULES = "/etc/rspamd/common.conf";
/** At its first start it compiles what it then keeps in its folder. */
const START_MS = 180_000;
const ANSWER_MS = 60_000;
/** Of a socket in its folder, where no other program can be in the way. */
const URL_OF_SOCKET = "http://localhost";

/** An rspamd of ours, which judges what it is given and nothing else. */
export interface RunningRspamd {
  judge(mail: JudgedMail): Promise<Verdict>;
  stop(): Promise<void>;
}

/**
 * Starts rspamd with its own rules, those apart that ask public services about a message that was not sent yet.
 * @param options.suffixes public suffixes, where its own list is not wanted
 * @returns undefined when it is not installed
 * @throws when it does not start in time
 */
export async function startRspamd(
  { resolver, folder }: JudgeSurroundings,
  options: { readonly suffixes?: readonly string[] } = {},
): Promise<RunningRspamd | undefined> {
  if (!existsSync(RULES)) return undefined;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const socket = join(folder, "rspamd.http");
  const nameserver =
    resolver === null ? "" : `nameserver = ["${await findResolverAddress(resolver.host)}:${resolver.port}"];`;
  const suffixes = options.suffixes && join(folder, "suffixes");
  if (suffixes) await writeFile(suffixes, `${options.suffixes.join("\n")}\n`);
  const file = join(folder, "rspamd.conf");
  await writeFile(
    file,
    configuration({ socket, nameserver, suffixes: suffixes ?? "$SHAREDIR/effective_tld_names.dat" }),
  );
  const folders = ["DBDIR", "RUNDIR", "LOGDIR", "LOCAL_CONFDIR"].map((name) => `--var=${name}=${folder}`);
  const child = spawn("rspamd", ["-f", "-i", "-c", file, ...folders], { env: { PATH: PROGRAM_PATH }, stdio: "ignore" });
  const gone = new AbortController();
  const ended = new Promise<void>((resolve) => child.once("error", () => resolve()).once("exit", () => resolve()));
  void ended.then(() => gone.abort());
  const { Agent } = await import("undici");
  const dispatcher = new Agent({ connect: { socketPath: socket } });
  const stop = async () => {
    child.kill("SIGTERM");
    const killed = sleep(5_000, undefined, { ref: false }).then(() => child.kill("SIGKILL"));
    await Promise.race([ended, killed]);
    await dispatcher.destroy();
  };
  if (!(await answersBefore(AbortSignal.any([gone.signal, AbortSignal.timeout(START_MS)]), dispatcher))) {
    await stop();
    throw new Error("rspamd does not start");
  }
  return { judge: (mail) => judge(dispatcher, mail), stop };
}

/** Modules that ask others about a message, or learn from it, are off. */
const OFF = ["fuzzy_check", "rbl", "asn", "phishing", "url_redirector", "greylist", "neural", "reputation"];

function configuration({
  socket,
  nameserver,
  suffixes,
}: {
  readonly socket: string;
  readonly nameserver: string;
  readonly suffixes: string;
}): string {
  return `.include "${RULES}"
options {
  filters = "chartable,dkim,regexp"; explicit_modules = ["settings"]; local_addrs = [];
  pidfile = "$DBDIR/rspamd.pid"; control_socket = "$DBDIR/rspamd.sock mode=0600"; tempdir = "$DBDIR";
  hs_cache_dir = "$DBDIR/"; cache_file = "$DBDIR/symbols.cache"; url_tld = "${suffixes}"; disable_hyperscan = true;
  allow_raw_input = true; task_timeout = 30s; max_urls = 10240; max_lua_urls = 1024; max_recipients = 1024;
  dns { ${nameserver} timeout = 2s; retransmits = 3; }
}
logging { type = "console"; level = "error"; }
worker "normal" { bind_socket = "${socket} mode=0600"; count = 1; }
${OFF.map((name) => `${name} { enabled = false; }\n`).join("")}`;
}

async function answersBefore(end: AbortSignal, dispatcher: Dispatcher): Promise<boolean> {
  while (!end.aborted) {
    if (await answers(dispatcher, end)) return true;
    await sleep(200, undefined, { signal: end }).catch(() => {});
  }
  return false;
}

async function answers(dispatcher: Dispatcher, signal: AbortSignal): Promise<boolean> {
  try {
    const { request } = await import("undici");
    const { statusCode, body } = await request(`${URL_OF_SOCKET}/ping`, { headersTimeout: 2_000, signal, dispatcher });
    await body.dump();
    return statusCode === 200;
  } catch {
    return false;
  }
}

async function judge(
  dispatcher: Dispatcher,
  { octets, clientAddress, helo, mailFrom, rcptTo }: JudgedMail,
): Promise<Verdict> {
  const headers = { IP: clientAddress, Helo: helo, Hostname: helo, From: mailFrom, Rcpt: rcptTo };
  let answer: RspamdAnswer;
  try {
    answer = await askRspamd(URL_OF_SOCKET, octets, { headers, timeoutMs: ANSWER_MS, dispatcher });
  } catch (error) {
    return { judge: "rspamd", kind: "failed", words: (error as Error).message.slice(0, 500) };
  }
  const { score, symbols } = answer;
  const rules = Object.keys(symbols);
  const met = Object.entries(symbols).map(([rule, { score: points, description, options }]) => ({
    ...{ rule, points },
    words: [description, ...options.slice(0, 3)].filter(Boolean).join("; "),
  }));
  const authenticated = {
    spf: rules.includes("R_SPF_ALLOW"),
    dkim: rules.includes("R_DKIM_ALLOW"),
    dmarc: rules.includes("DMARC_POLICY_ALLOW"),
  };
  return { judge: "rspamd", kind: "judged", score, authenticated, rules, objections: objectionsOf(met) };
}
