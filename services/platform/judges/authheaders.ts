import { findResolverAddress } from "../lookups/resolver-server.ts";
import type { JudgedMail, JudgeSurroundings, Verdict } from "./judge.ts";
import { runProgram } from "./run-program.ts";

const DEADLINE_MS = 60_000;
/** Debian's interpreter has Debian's modules; another in the path need not. */
const PYTHON = "/usr/bin/python3";
const SCRIPT = `
import sys
try:
    import authheaders, dns.resolver, spf
except ImportError:
    sys.exit(77)
ip, helo, mail_from, server, port = sys.argv[1:6]
if server:
    dns.resolver.default_resolver = dns.resolver.Resolver(configure=False)
    dns.resolver.default_resolver.nameservers = [server]
    dns.resolver.default_resolver.port = int(port)
print(authheaders.authenticate_message(sys.stdin.buffer.read(), "judge", spf=True, dkim=True, arc=False, dmarc=True,
    ip=ip, mail_from=mail_from, helo=helo))
`;
const NOT_INSTALLED = 77;

/** Judges SPF, DKIM and DMARC alone, by python3-authheaders. */
export async function judgeByAuthheaders(mail: JudgedMail, { resolver, folder }: JudgeSurroundings): Promise<Verdict> {
  const server = resolver === null ? ["", ""] : [await findResolverAddress(resolver.host), String(resolver.port)];
  const output = await runProgram([PYTHON, "-c", SCRIPT, mail.clientAddress, mail.helo, mail.mailFrom, ...server], {
    ...{ input: mail.octets, deadlineMs: DEADLINE_MS, home: folder },
  });
  if (output === undefined || output.status === NOT_INSTALLED) return { judge: "authheaders", kind: "absent" };
  if (output.status !== 0) return { judge: "authheaders", kind: "failed", words: output.stderr.slice(-500) };
  const results = [...output.stdout.matchAll(/\b(spf|dkim|dmarc)=(\w+)/g)];
  const passed = (method: string) => results.some(([, name, result]) => name === method && result === "pass");
  const authenticated = { spf: passed("spf"), dkim: passed("dkim"), dmarc: passed("dmarc") };
  const objections = (["spf", "dkim", "dmarc"] as const)
    .filter((method) => !authenticated[method])
    .map((method) => ({
      ...{ rule: method, points: 1 },
      words: results.find(([, name]) => name === method)?.[0] ?? `${method}=none`,
    }));
  return {
    ...{ judge: "authheaders", kind: "judged", authenticated, objections },
    rules: results.map(([text]) => text),
  };
}
