import { findResolverAddress } from "../lookups/resolver-server.ts";
import { type JudgedMail, type JudgeSurroundings, objectionsOf, type Verdict } from "./judge.ts";
import { runProgram } from "./run-program.ts";

const DEADLINE_MS = 120_000;
const STATUS = /^X-Spam-Status: \w+, score=(-?[\d.]+) required=[\d.]+ tests=([\s\S]*?)(?= autolearn=)/m;
const RULE = /^\s*(-?\d+\.\d+)\s+([A-Z][A-Z0-9_]+)\s+(.*)$/gm;

/** Judges by SpamAssassin's rules, without those that ask public services. */
export async function judgeBySpamAssassin(mail: JudgedMail, { resolver, folder }: JudgeSurroundings): Promise<Verdict> {
  const server = resolver === null ? [] : [`dns_server [${await findResolverAddress(resolver.host)}]:${resolver.port}`];
  const settings = [
    ...["skip_rbl_checks 1", "use_bayes 0", "use_pyzor 0", "use_razor2 0", "dns_available yes", ...server],
    // The receiver that it judges for, which wrote the first field.
    ...[
      "clear_trusted_networks",
      "clear_internal_networks",
      "trusted_networks 127.0.0.1",
      "internal_networks 127.0.0.1",
    ],
    ...["always_trust_envelope_sender 1", "envelope_sender_header Return-Path", "report_safe 0"],
  ];
  const command = ["spamassassin", "-t", "-x", ...settings.map((setting) => `--cf=${setting}`)] as const;
  const input = Buffer.concat([Buffer.from(traceOf(mail), "latin1"), mail.octets]);
  const output = await runProgram(command as unknown as [string, ...string[]], {
    ...{ input, deadlineMs: DEADLINE_MS, home: folder },
  });
  if (output === undefined) return { judge: "spamassassin", kind: "absent" };
  const [, score, tests] = STATUS.exec(output.stdout) ?? [];
  if (score === undefined || tests === undefined) {
    return { judge: "spamassassin", kind: "failed", words: output.stderr.slice(0, 500) };
  }
  const rules = tests.split(/[,\s]+/).filter((name) => name !== "" && name !== "none");
  const report = output.stdout.slice(output.stdout.lastIndexOf("Content analysis details:"));
  const met = [...report.matchAll(RULE)].map(([, points, rule, words]) => ({
    ...{ rule: rule!, points: Number(points), words: words!.trim() },
  }));
  const authenticated = { spf: rules.includes("SPF_PASS"), dkim: rules.includes("DKIM_VALID_AU") };
  return {
    ...{ judge: "spamassassin", kind: "judged", score: Number(score), authenticated, rules },
    objections: objectionsOf(met),
  };
}

/** What the receiver would put in front. */
function traceOf({ clientAddress, helo, mailFrom, rcptTo }: JudgedMail): string {
  const address = clientAddress.includes(":") ? `IPv6:${clientAddress}` : clientAddress;
  const date = new Date().toUTCString().replace("GMT", "+0000");
  return (
    `Return-Path: <${mailFrom}>\r\n` +
    `Received: from ${helo} (${helo} [${address}])\r\n\tby receiver.invalid (Postfix) with ESMTPS id 4XYZ\r\n` +
    `\tfor <${rcptTo}>; ${date}\r\n`
  );
}
