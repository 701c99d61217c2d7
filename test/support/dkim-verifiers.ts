import { execFile, spawnSync } from "node:child_process";
import { Resolver } from "node:dns/promises";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { request } from "undici";
import { freePort, isInstalled, type Peer, startPeer } from "./peers-processes.ts";

/** Debian's Python, which has its packages. */
const PYTHON = "/usr/bin/python3";

/** What a foreign verifier makes of messages, each with two signatures. */
export interface DkimVerifier {
  readonly name: string;
  /** Why it cannot be asked; undefined: it can. */
  readonly absence: string | undefined;
  /** @param files of messages in the folder. @param server the name server that has the keys. @returns those that fail */
  failures(folder: string, files: readonly string[], server: string): Promise<string[]>;
}

/** dkimverify's own library (python3-dkim), which verifies each signature by itself. */
const DKIMPY = `
import sys, dkim, dns.resolver
host, port = sys.argv[1].split(":")
resolver = dns.resolver.Resolver(configure=False)
resolver.nameservers, resolver.port = [host], int(port)
known = {}
def texts(name, timeout=5):
    name = name.decode() if isinstance(name, bytes) else name
    if name not in known:
        try:
            known[name] = b"".join(resolver.resolve(name, "TXT")[0].strings)
        except Exception:
            known[name] = None
    return known[name]
for file in open("files").read().split():
    message = dkim.DKIM(open(file, "rb").read())
    count = sum(1 for name, _ in message.headers if name.lower() == b"dkim-signature")
    try:
        passed = count == 2 and all([message.verify(index, dnsfunc=texts) for index in range(count)])
    except Exception:
        passed = False
    if not passed:
        print(file)
`;

const dkimpy: DkimVerifier = {
  name: "dkimverify (python3-dkim)",
  absence:
    spawnSync(PYTHON, ["-c", "import dkim, nacl, dns"]).status === 0
      ? undefined
      : "python3-dkim or python3-nacl is not installed",
  failures: async (folder, files, server) => {
    writeFileSync(join(folder, "files"), files.join("\n"));
    // Not at once: the name server that it asks may run in this process.
    const run = promisify(execFile)(PYTHON, ["-c", DKIMPY, server], { cwd: folder, maxBuffer: 2 ** 26 });
    return (await run).stdout.split("\n").filter((line) => line !== "");
  },
};

/** As a command line may be. */
const FILES_A_RUN = 500;

/** opendkim in its test mode; keys are those that the name server has at this moment. */
const opendkim: DkimVerifier = {
  name: "opendkim",
  absence: isInstalled("opendkim") ? undefined : "opendkim is not installed",
  failures: async (folder, files, server) => {
    writeFileSync(join(folder, "keys"), await keysOf(folder, files, server));
    writeFileSync(join(folder, "opendkim.conf"), `TestDNSData file:${join(folder, "keys")}\nMode v\n`);
    const failed: string[] = [];
    for (let at = 0; at < files.length; at += FILES_A_RUN) {
      const some = files.slice(at, at + FILES_A_RUN);
      const run = spawnSync("opendkim", ["-x", "opendkim.conf", "-t", some.join(",")], {
        ...{ cwd: folder, encoding: "utf8", env: { PATH: `${process.env.PATH}:/usr/sbin` } },
      });
      const said = `${run.stdout}${run.stderr}`.split("\n");
      const passed = (file: string) =>
        said.some((line) => line.includes(`${file}: `) && /verification .*succeeded/.test(line));
      failed.push(...some.filter((file) => !passed(file)));
      if (failed.length === some.length) throw new Error(said.slice(0, 5).join("\n"));
    }
    return failed;
  },
};

async function keysOf(folder: string, files: readonly string[], server: string): Promise<string> {
  const names = new Set<string>();
  for (const file of files) {
    for (const [, domain, selector] of readFileSync(join(folder, file), "latin1").matchAll(/ d=([^;]+); s=([^;]+);/g)) {
      names.add(`${selector}._domainkey.${domain}`);
    }
  }
  const resolver = makeResolver(server);
  const lines: string[] = [];
  for (const name of names) {
    const [strings = []] = await resolver.resolveTxt(name).catch(() => []);
    if (strings.length > 0) lines.push(`${name} ${strings.join("")}`);
  }
  return `${lines.join("\n")}\n`;
}

function makeResolver(server: string): Resolver {
  const resolver = new Resolver();
  resolver.setServers([server]);
  return resolver;
}

const mailauth: DkimVerifier = {
  name: "mailauth",
  absence: undefined,
  failures: async (folder, files, server) => {
    const resolver = makeResolver(server);
    const known = new Map<string, Promise<string[][]>>();
    const resolve = (name: string) => {
      const found = known.get(name) ?? resolver.resolveTxt(name);
      known.set(name, found);
      return found;
    };
    const failed: string[] = [];
    for (const file of files) {
      const { results } = await dkimVerify(readFileSync(join(folder, file)), { resolver: resolve as never });
      const passed = results.length === 2 && results.every(({ status }) => status.result === "pass");
      if (!passed) failed.push(file);
    }
    return failed;
  },
};

const rspamd: DkimVerifier = {
  name: "rspamd",
  absence: isInstalled("rspamd") ? undefined : "rspamd is not installed",
  failures: async (folder, files, server) => {
    const peer = await startRspamd(server);
    try {
      const failed: string[] = [];
      for (const file of files) {
        const answer = await request(`http://${peer.address}/checkv2`, {
          method: "POST",
          body: readFileSync(join(folder, file)),
        });
        const { symbols } = (await answer.body.json()) as { symbols: Readonly<Record<string, { options?: string[] }>> };
        if (!symbols.R_DKIM_ALLOW || symbols.R_DKIM_REJECT || symbols.R_DKIM_TEMPFAIL || symbols.R_DKIM_PERMFAIL) {
          failed.push(file);
        }
      }
      return failed;
    } finally {
      await peer.stop();
    }
  },
};

async function startRspamd(server: string): Promise<Peer> {
  const peer = await startPeer("rspamd", await freePort(), (folder, port) => ({
    files: {
      // All public suffixes would take it most of a minute to compile.
      suffixes: "org\nnet\n",
      "rspamd.conf": `
options {
  filters = "dkim";
  url_tld = "${folder}/suffixes";
  dns { nameserver = ["${server}:1"]; timeout = 5s; retransmits = 5; }
  control_socket = "${folder}/control.sock mode=0600";
  hs_cache_dir = "${folder}";
}
logging { type = "console"; level = "warning"; }
worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
dkim { trusted_only = false; }
`,
    },
    command: ["rspamd", "-f", "--insecure", "-c", `${folder}/rspamd.conf`],
  }));
  const deadline = performance.now() + 180_000;
  for (;;) {
    const isUp = await request(`http://${peer.address}/ping`).then(
      ({ statusCode, body }) => body.dump().then(() => statusCode === 200),
      () => false,
    );
    if (isUp) return peer;
    if (performance.now() > deadline) throw new Error(`rspamd does not answer: ${peer.log()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Those that the tests meet. */
export const DKIM_VERIFIERS: readonly DkimVerifier[] = [dkimpy, opendkim, mailauth, rspamd];
