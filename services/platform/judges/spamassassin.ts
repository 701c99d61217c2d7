import { findResolverAddress } from "../lookups/resolver-server.ts";
import { type JudgedMail, type JudgeSurroundings, objectionsOf, type Verdict } from "./judge.ts";
import { runProgram } from "./run-program.ts";

const DEADLINE_MS = 240_000;
/** Entries have numbers: it tells of them in the order of their dates. */
const ENTRY = /^From judge-(\d+)@receiver\.invalid .*\n/m;
const STATUS = /^X-Spam-Status: \w+, score=(-?[\d.]+) required=[\d.]+ tests=([\s\S]*?)(?=\s+autolearn=)/m;
const RULE = /^\s*(-?\d+\.\d+)\s+([A-Z][A-Z0-9_]+)\s+(.*)$/gm;

/** Judges by SpamAssassin's rules, without those that ask public services. */
export async function judgeBySpamAssassin(mail: JudgedMail, surroundings: JudgeSurroundings): Promise<Verdict> {
  return (await judgeAllBySpamAssassin([mail], surroundings))[0]!;
}

/** The same for several messages, in their order: to read its rules takes it longer than to judge. */
export async function judgeAllBySpamAssassin(
  mails: readonly JudgedMail[],
  { resolver, folder }: JudgeSurroundings,
): Promise<Verdict[]> {
  const server = resolver === null ? [] : [`dns_server [${await findResolverAddress(resolver.host)}]:${resolver.port}`];
  const settings = [...SETTINGS, ...server].map((setting) => `--cf=${setting}`);
  const output = await runProgram(["spamassassin", "-t", "-x", "--mbox", ...settings], {
    ...{ input: Buffer.concat(mails.map(asMailboxEntry)), deadlineMs: DEADLINE_MS, home: folder },
  });
  if (output === undefined) return mails.map(() => ({ judge: "spamassassin", kind: "absent" }));
  const [, ...told] = output.stdout.split(ENTRY);
  return mails.map((_mail, index) => readVerdict(textOf(told, index), output.stderr));
}

/** @param told numbers, each with the text that follows it */
function textOf(told: readonly string[], number: number): string {
  const at = told.findIndex((word, index) => index % 2 === 0 && word === String(number));
  return at === -1 ? "" : (told[at + 1] ?? "");
}

const SETTINGS = [
  ...["skip_rbl_checks 1", "use_bayes 0", "use_pyzor 0", "use_razor2 0", "dns_available yes", "report_safe 0"],
  // Whoever the first field names is a stranger to the receiver.
  ...["clear_trusted_networks", "clear_internal_networks"],
  ...["always_trust_envelope_sender 1", "envelope_sender_header Return-Path"],
];

function readVerdict(text: string, complaints: string): Verdict {
  const [, score, tests] = STATUS.exec(text) ?? [];
  if (score === undefined || tests === undefined) {
    return { judge: "spamassassin", kind: "failed", words: complaints.slice(0, 500) };
  }
  const rules = tests.split(/[,\s]+/).filter((name) => name !== "" && name !== "none");
  const report = text.slice(text.lastIndexOf("Content analysis details:"));
  const met = [...report.matchAll(RULE)].map(([, points, rule, words]) => ({
    ...{ rule: rule!, points: Number(points), words: words!.trim() },
  }));
  const authenticated = { spf: rules.includes("SPF_PASS"), dkim: rules.includes("DKIM_VALID_AU") };
  return {
    ...{ judge: "spamassassin", kind: "judged", score: Number(score), authenticated, rules },
    objections: objectionsOf(met),
  };
}

/** An entry of a mailbox file: lines that look like the beginning of the next are marked. */
function asMailboxEntry(mail: JudgedMail, number: number): Buffer {
  const text = `${traceOf(mail)}${mail.octets.toString("latin1")}`.replace(/^(>*From )/gm, ">$1");
  return Buffer.from(
    `From judge-${number}@receiver.invalid Thu Jan  1 00:00:00 1970\n${text.replaceAll("\r\n", "\n")}\n\n`,
    "latin1",
  );
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
