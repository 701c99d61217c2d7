import { z } from "zod";
import { readSenderDomain } from "../../core/customer-input.ts";
import { KNOWN_REPORTERS } from "../../core/mail/reports/known-reporters.ts";
import { DISPOSITIONS } from "../../core/mail/reports/report.ts";
import {
  expectedReportConsent,
  expectedTlsReporting,
  reportAddresses,
} from "../../core/mail/reports/report-addresses.ts";
import { expectedDmarc } from "../../core/mail/sender-records.ts";
import { ok, refuse } from "../../core/result.ts";
import {
  type LookUpNames,
  readSenderReports,
  type SenderReportsView,
} from "../../operations/mail/reports/show-reports.ts";
import { makeNameLookup } from "../../platform/lookups/name-lookup.ts";
import { allowedDomains } from "../../store/mail/instances/instances.ts";
import { areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";

const MOST_DAYS = 400;

const count = z.number();
const source = z.object({
  source: z.string().meta({ description: "IP address that sent" }),
  sender: z.string().optional().meta({ description: "the service behind it, or the confirmed name of the address" }),
  include: z.string().optional().meta({ description: "what an SPF policy includes to allow that service" }),
  own: z.boolean().meta({ description: "whether it is this deployment" }),
  is_sender: z.boolean().meta({ description: "whether it has passed at some time, or is a known service" }),
  messages: count,
  counted: count.meta({ description: "of them in reports that count" }),
  passing: count.meta({ description: "with aligned DKIM or aligned SPF" }),
  dkim: count,
  spf: count,
  overridden: count.meta({ description: "failing, and taken all the same although the policy says otherwise" }),
  quarantined: count,
  rejected: count,
  first_day: z.string(),
  last_day: z.string(),
});
const tlsFailure = z.object({
  exchanger: z.string().meta({ description: "empty where reports do not say" }),
  result: z.string().meta({ description: "a result type of RFC 8460" }),
  policy_type: z.string(),
  sessions: count,
});
const received = z.object({
  reporter: z.string().meta({ description: "as it calls itself" }),
  day: z.string().meta({ description: "that it is about" }),
  received: z.string(),
  messages: count,
  counts: z.boolean().meta({ description: "whether the proposal, sources and events go by it" }),
  why_not: z.enum(["unsigned", "late"]).optional().meta({
    description: "why it does not count: no known receiver signed it, or it came later than four days after its time",
  }),
  signed_by: z.string().meta({ description: "domain of the known receiver that signed it; empty: none did" }),
});
const reported = { reports: count, reporters: count, days: count };
const reports = z.object({
  addresses: z.object({ dmarc: z.string(), tls: z.string(), tls_https: z.string() }),
  records: z
    .array(z.object({ name: z.string(), type: z.string(), value: z.string() }))
    .meta({ description: "what has reports come here" }),
  dmarc: z.object({
    ...reported,
    policy: z.enum(["", ...DISPOSITIONS]).meta({ description: "that receivers saw last; empty: none was reported" }),
    messages: count,
    counted: count.meta({
      description: "of them in reports that a known receiver signed; the proposal goes by those alone",
    }),
    counted_reports: count,
    known_reporters: z.array(z.string()).meta({ description: "whose reports count when they sign them" }),
    passing: count,
    lost_of_senders: count.meta({ description: "failing messages of the domain's senders that a policy would hit" }),
    lost_of_others: count.meta({ description: "failing messages of everybody else" }),
    overridden: count,
    proposal: z.object({
      kind: z.enum(["ready", "wait", "strictest", "unknown"]),
      policy: z.enum(["quarantine", "reject"]).optional(),
      because: z.enum(["few-days", "few-messages", "failing"]).optional(),
    }),
    sources: z.array(source),
    received: z.array(received).meta({ description: "the newest reports" }),
  }),
  tls: z.object({ ...reported, successes: count, failures: z.array(tlsFailure) }),
});

/** What receivers report about sender domains. */
export const makeSenderReportEndpoints: MakeConsoleEndpoints = (context) => {
  let lookUp: Promise<LookUpNames> | undefined;
  const names: LookUpNames = async (addresses) => {
    lookUp ??= makeNameLookup(context.config.resolver);
    return (await lookUp)(addresses);
  };
  return [
    consoleEndpoint({
      method: "GET",
      path: "/instances/:name/domains/:domain/reports",
      summary: "What DMARC aggregates and reports about TLS say of a sender domain",
      authorise: areaOf("instance"),
      params: z.object({ name: z.string(), domain: z.string() }),
      fields: z.object({ days: z.int("whole-number").min(1, "at-least").max(MOST_DAYS, "at-most").default(30) }),
      reply: reports,
      act: ({ caller, params, fields }) =>
        withInstance(context, caller, params.name, async ({ id }) => {
          const domain = readSenderDomain(params.domain);
          if (!domain.ok || !(await allowedDomains(context.db, id)).includes(domain.value)) {
            return refuse(problem("no-such-sender-domain"));
          }
          const about = { instanceId: id, domain: domain.value };
          const { bounceDomain } = context.config;
          const view = await readSenderReports(context.db, { ...about, days: fields.days }, { bounceDomain, names });
          return ok({ ...(await addressesOf(context, about)), ...toJson(view) });
        }),
    }),
  ];
};

async function addressesOf(
  { keyRing, config, addressOf }: ConsoleContext,
  about: { readonly instanceId: number; readonly domain: string },
): Promise<Pick<z.input<typeof reports>, "addresses" | "records">> {
  const { bounceDomain } = config;
  const tracking = config.trackingUrl ?? (await addressOf("tracking"));
  const addresses = reportAddresses(keyRing, about, { bounceDomain, tracking });
  const { domain } = about;
  const dmarc = expectedDmarc(domain);
  const records = [
    { ...dmarc, value: `${dmarc.value}; rua=${addresses.dmarc}` },
    expectedReportConsent(domain, bounceDomain),
    expectedTlsReporting(domain, addresses),
  ];
  const { dmarc: address, tls, tlsHttps } = addresses;
  return { addresses: { dmarc: address, tls, tls_https: tlsHttps }, records };
}

function toJson({ dmarc, tls }: SenderReportsView): Pick<z.input<typeof reports>, "dmarc" | "tls"> {
  const { lostOfSenders, lostOfOthers, countedReports, sources, received, policy, ...counts } = dmarc;
  return {
    dmarc: {
      ...counts,
      policy: DISPOSITIONS.find((known) => known === policy) ?? "",
      counted_reports: countedReports,
      known_reporters: [...KNOWN_REPORTERS],
      lost_of_senders: lostOfSenders,
      lost_of_others: lostOfOthers,
      sources: sources.map(
        ({ isSender, firstDay, lastDay, dkimDomain, spfDomain, hasPassed, countedFailing, ...one }) => ({
          ...one,
          ...{ is_sender: isSender, first_day: firstDay, last_day: lastDay },
        }),
      ),
      received: received.map(({ receivedAt, whyNot, signedBy, ...one }) => ({
        ...{ ...one, received: receivedAt.toISOString(), signed_by: signedBy },
        ...(whyNot === undefined ? {} : { why_not: whyNot }),
      })),
    },
    tls: {
      ...tls,
      failures: tls.failures.map(({ policyType, ...one }) => ({ ...one, policy_type: policyType })),
    },
  };
}
