import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import { readSenderDomain } from "../../core/customer-input.ts";
import type { SenderReport } from "../../core/mail/reports/report.ts";
import { reportAddresses } from "../../core/mail/reports/report-addresses.ts";
import { campaignTemplate } from "../../operations/mail/campaign-control.ts";
import { composeJudgedMessage, judgedEnvelope } from "../../operations/mail/judge-campaign.ts";
import { readReport, readReportMessage } from "../../operations/mail/reports/read-report.ts";
import { readSenderReports, type SenderReportsView } from "../../operations/mail/reports/show-reports.ts";
import type { Verdict } from "../../platform/judges/judge.ts";
import { judgeMail, judgesFolder } from "../../platform/judges/judge-mail.ts";
import { readCampaignText } from "../../platform/lookups/campaign-text.ts";
import { makeNameLookup } from "../../platform/lookups/name-lookup.ts";
import { makeResolver } from "../../platform/lookups/resolver.ts";
import { findCampaignSend } from "../../store/mail/campaigns/campaign-sends.ts";
import { findCampaign, findInstanceOfCampaign } from "../../store/mail/campaigns/campaigns.ts";
import { allowedDomains, findInstanceByName } from "../../store/mail/instances/instances.ts";
import type { CommandDatabase } from "../database.ts";
import { cannotRead, orRefuse } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

interface JudgeOptions {
  readonly campaign?: string;
  readonly ip?: string;
  readonly helo?: string;
  readonly from?: string;
  readonly to?: string;
}

/** `palomar mail …`: how receivers see mail. */
export function registerMailCommand(program: Command, runtime: CommandRuntime): void {
  const mail = program.command("mail").description("how receivers see mail");
  mail
    .command("judge")
    .argument("[file]", "a message; - reads standard input")
    .option("--campaign <numid>", "what this campaign would send, in place of a file")
    .option("--ip <address>", "where it would come from; the address of PALOMAR_HOSTNAME when not given")
    .option("--helo <name>", "what that calls itself; PALOMAR_HOSTNAME when not given")
    .option("--from <address>", "its return path; one in the bounce domain when not given")
    .option("--to <address>", "whom it would go to; the first that it is to when not given")
    .description("say what the spam filters that are installed here object to in a message; exit status 1 when they do")
    .action((file: string | undefined, options: JudgeOptions) => judge(runtime, file, options));
  mail
    .command("reports")
    .argument("<instance>")
    .argument("<domain>", "one of its sender domains")
    .option("--days <days>", "how far back, up to 400", "30")
    .description("say what receivers report about a sender domain, and where their reports come")
    .action((instance: string, domain: string, options: { readonly days: string }) =>
      showReports(runtime, { instance, domain, days: options.days }),
    );
  mail
    .command("report")
    .argument("<file>", "a report as it is, packed, or in a message; - reads standard input")
    .description("say what a report says, or why it counts for nothing")
    .action(async (file: string) => {
      const octets = await readInput(runtime, file);
      const now = new Date();
      const bare = await readReport(octets, now);
      const read = !bare.ok && bare.error === "no-report" ? await readReportMessage(octets, now) : bare;
      if (!read.ok) return runtime.refuse(`no report that counts: ${read.error}`);
      runtime.print(read.value, describeReport(read.value));
    });
}

function readInput(runtime: CommandRuntime, file: string): Promise<Buffer> {
  return readFile(file === "-" ? "/dev/stdin" : file).catch(cannotRead(runtime, file));
}

async function judge(runtime: CommandRuntime, file: string | undefined, options: JudgeOptions): Promise<void> {
  const { campaign, ip, helo, from, to } = options;
  if ((file === undefined) === (campaign === undefined)) runtime.misused("a file or --campaign is needed");
  const { config } = runtime;
  const resolver = await makeResolver(config.resolver);
  const octets =
    file !== undefined
      ? Buffer.from((await readInput(runtime, file)).toString("latin1").replace(/\r?\n/g, "\r\n"), "latin1")
      : await composeCampaign(runtime, Number(campaign));
  if (octets.every((octet) => octet <= 0x20)) runtime.refuse("there is no message: the input is empty");
  const usual = await judgedEnvelope(config, resolver, octets);
  const given = { clientAddress: ip, helo, mailFrom: from, rcptTo: to };
  const envelope = { ...usual, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value)) };
  const surroundings = { resolver: config.resolver, folder: judgesFolder(config.dataDir) };
  const verdicts = await judgeMail(envelope, surroundings);
  runtime.print(verdicts, verdicts.map(describeVerdict).join("\n"));
  const judged = verdicts.filter(({ kind }) => kind !== "absent");
  if (judged.length === 0) runtime.refuse("no judge is installed: rspamd, spamassassin or python3-authheaders");
  if (judged.some((one) => one.kind !== "judged" || one.objections.length > 0)) runtime.exitWith(1);
}

function composeCampaign(runtime: CommandRuntime, numid: number): Promise<Buffer> {
  return runtime.withDatabase(async ({ db, keyRing, config }) => {
    const instanceId = Number.isSafeInteger(numid) ? await findInstanceOfCampaign(db, numid) : undefined;
    const campaign = instanceId && (await findCampaign(db, instanceId, numid));
    const send = instanceId && (await findCampaignSend(db, instanceId, numid));
    if (!campaign || !send) return runtime.refuse(`there is no campaign ${numid} with a message of its own`);
    const resolver = await makeResolver(config.resolver);
    const text = await readCampaignText({ ...send, subjectUri: campaign.subjectUri }, { config, resolver });
    if (!text.ok) return runtime.refuse(text.error.message);
    const trackingUrl = config.trackingUrl ?? `http://${config.hostname}`;
    const of = { keyRing, instanceId, trackingUrl, now: new Date() };
    const octets = await composeJudgedMessage(db, campaignTemplate(send, campaign, text.value), of);
    return octets ?? runtime.refuse(`campaign ${numid} cannot be sent as it is`);
  });
}

function describeVerdict(verdict: Verdict): string {
  const { judge: name } = verdict;
  if (verdict.kind === "absent") return `${name}: not installed`;
  if (verdict.kind === "failed") return `${name}: no verdict: ${verdict.words}`;
  const score = verdict.score === undefined ? "" : ` ${verdict.score} points;`;
  const passed = Object.entries(verdict.authenticated).map(([method, ok]) => `${method} ${ok ? "passes" : "fails"}`);
  const objections = verdict.objections.map(({ rule, points, words }) => `  ${points}\t${rule}\t${words}`);
  return [`${name}:${score} ${passed.join(", ")}`, ...objections].join("\n");
}

async function showReports(
  runtime: CommandRuntime,
  asked: { readonly instance: string; readonly domain: string; readonly days: string },
): Promise<void> {
  const days = Number(asked.days);
  if (!Number.isInteger(days) || days < 1 || days > 400) runtime.misused(`${asked.days} is no number of days`);
  const domain = orRefuse(runtime, readSenderDomain(asked.domain));
  await runtime.withDatabase(async (database) => {
    const { db, keyRing, config } = database;
    const about = { instanceId: await instanceOf(runtime, database, { ...asked, domain }), domain };
    const names = await makeNameLookup(config.resolver);
    const { bounceDomain } = config;
    const view = await readSenderReports(db, { ...about, days }, { bounceDomain, names });
    const tracking = config.trackingUrl ?? `http://${config.hostname}`;
    const addresses = reportAddresses(keyRing, about, { bounceDomain, tracking });
    runtime.print({ addresses, ...view }, [`reports to ${addresses.dmarc}`, ...describeView(view)].join("\n"));
  });
}

async function instanceOf(
  runtime: CommandRuntime,
  { db }: CommandDatabase,
  { instance, domain }: { readonly instance: string; readonly domain: string },
): Promise<number> {
  const found = await findInstanceByName(db, instance);
  if (found === undefined) return runtime.refuse(`there is no instance ${instance}`);
  const isOurs = (await allowedDomains(db, found.id)).includes(domain);
  return isOurs ? found.id : runtime.refuse(`${instance} has no sender domain ${domain}`);
}

function describeView({ dmarc, tls }: SenderReportsView): string[] {
  const { messages, passing, lostOfSenders, lostOfOthers, proposal } = dmarc;
  const next = "policy" in proposal ? ` ${proposal.policy}` : "";
  const because = "because" in proposal ? ` (${proposal.because})` : "";
  return [
    `dmarc: ${counted(dmarc.reports, "report")} of ${counted(dmarc.reporters, "reporter")} about ${counted(dmarc.days, "day")}, policy ${dmarc.policy || "unknown"}`,
    `reports that count: ${dmarc.countedReports}`,
    `${counted(messages, "message")}, of which pass: ${passing}; that fail: ${lostOfSenders} of your senders, ${lostOfOthers} of others`,
    `next policy: ${proposal.kind}${next}${because}`,
    ...dmarc.sources.map((one) =>
      [one.source, one.own ? "this deployment" : (one.sender ?? "-"), one.messages, one.messages - one.passing].join(
        "\t",
      ),
    ),
    `tls: ${counted(tls.reports, "report")}, ${counted(tls.successes, "session")} with success`,
    ...tls.failures.map(({ exchanger, result, sessions }) => [exchanger || "-", result, sessions].join("\t")),
  ];
}

function describeReport(report: SenderReport): string {
  const { kind, reporter, reportId, beginsAt, endsAt } = report;
  const rows =
    report.kind === "dmarc"
      ? report.rows.map(({ source, headerFrom, messages, dkim, spf, disposition }) =>
          [source, headerFrom, messages, dkim ? "dkim" : "-", spf ? "spf" : "-", disposition].join("\t"),
        )
      : report.rows.map(({ exchanger, result, sessions }) =>
          [exchanger || "-", result || "success", sessions].join("\t"),
        );
  return [
    `${kind} report ${reportId} of ${reporter}, ${beginsAt.toISOString()} to ${endsAt.toISOString()}`,
    ...rows,
  ].join("\n");
}
