import { z } from "zod";
import { ok, type Result, refuse } from "../../result.ts";
import { readReportedDomain } from "./domain-within.ts";
import { plainWords, REPORT_LIMITS, type ReportRefusal, readPeriod, type TlsReport, type TlsRow } from "./report.ts";

const count = z.number().int().min(0).default(0);
/** RFC 8460 §4.4; senders of reports leave out much of it. */
const tlsReport = z.object({
  "organization-name": z.string(),
  "date-range": z.object({ "start-datetime": z.string(), "end-datetime": z.string() }),
  "contact-info": z.string().optional(),
  "report-id": z.string(),
  policies: z.array(
    z.object({
      policy: z.object({
        "policy-type": z.string(),
        "policy-domain": z.string(),
        "mx-host": z.union([z.string(), z.array(z.string())]).optional(),
      }),
      summary: z
        .object({ "total-successful-session-count": count, "total-failure-session-count": count })
        .default({ "total-successful-session-count": 0, "total-failure-session-count": 0 }),
      "failure-details": z
        .array(
          z.object({
            "result-type": z.string(),
            "receiving-mx-hostname": z.string().optional(),
            "failed-session-count": count,
          }),
        )
        .default([]),
    }),
  ),
});

const POLICY_TYPES = ["tlsa", "sts", "no-policy-found"];
/** RFC 8460 §4.3 and the registry "SMTP TLS Reporting Result Types". */
const RESULT_TYPES = new Set([
  "starttls-not-supported",
  "certificate-host-mismatch",
  "certificate-not-trusted",
  "certificate-expired",
  "validation-failure",
  "tlsa-invalid",
  "dnssec-invalid",
  "dane-required",
  "sts-policy-fetch-error",
  "sts-policy-invalid",
  "sts-webpki-invalid",
]);

/** Reads a report about TLS; text nested deeper than reports are is not parsed. */
export function readTlsReport(text: string, now: Date): Result<TlsReport, ReportRefusal> {
  if (isDeeper(text, REPORT_LIMITS.depth)) return refuse("too-deep");
  const json = parseJson(text);
  if (countEntries(json) > REPORT_LIMITS.records) return refuse("too-many-records");
  const parsed = tlsReport.safeParse(json);
  if (!parsed.success) return refuse("malformed");
  const { data } = parsed;
  const range = data["date-range"];
  const period = readPeriod(new Date(range["start-datetime"]), new Date(range["end-datetime"]), now);
  if (period === undefined) return refuse("bad-period");
  const [reporter, reportId] = [plainWords(data["organization-name"]), plainWords(data["report-id"])];
  if (reporter === "" || reportId === "") return refuse("malformed");
  const rows = data.policies.flatMap(rowsOf);
  if (rows.length > REPORT_LIMITS.records) return refuse("too-many-records");
  return ok({ kind: "tls", reporter, reportId, contact: plainWords(data["contact-info"]), ...period, rows });
}

type Policy = z.output<typeof tlsReport>["policies"][number];

/** What the details do not explain of the failures counts as a failure of no named kind. */
function rowsOf({ policy, summary, "failure-details": details }: Policy): TlsRow[] {
  const policyDomain = readReportedDomain(policy["policy-domain"]);
  const type = policy["policy-type"].toLowerCase();
  const policyType = POLICY_TYPES.find((known) => known === type);
  if (policyDomain === undefined || policyType === undefined) return [];
  const row = (result: string, exchanger: string | undefined, sessions: number): TlsRow[] =>
    sessions <= 0
      ? []
      : [
          {
            ...{ policyDomain, policyType, result },
            exchanger: readReportedDomain(exchanger) ?? "",
            sessions: Math.min(sessions, REPORT_LIMITS.messages),
          },
        ];
  const failures = details.flatMap((detail) => {
    const result = detail["result-type"].toLowerCase();
    const known = RESULT_TYPES.has(result) ? result : "validation-failure";
    return row(known, detail["receiving-mx-hostname"], detail["failed-session-count"]);
  });
  const explained = failures.reduce((sum, { sessions }) => sum + sessions, 0);
  return [
    ...row("", undefined, summary["total-successful-session-count"]),
    ...failures,
    ...row("validation-failure", undefined, summary["total-failure-session-count"] - explained),
  ];
}

/** Policies with their details, before each of them is looked at: one that is wrong costs more than its two octets. */
function countEntries(json: unknown): number {
  const entriesOf = (value: unknown, name: string): readonly unknown[] => {
    const found = (value as Record<string, unknown> | null | undefined)?.[name];
    return Array.isArray(found) ? found : [];
  };
  const policies = entriesOf(json, "policies");
  return policies.reduce<number>(
    (sum, policy) =>
      sum +
      entriesOf(policy, "failure-details").length +
      entriesOf((policy as { policy?: unknown })?.policy, "mx-host").length,
    policies.length,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether brackets outside of strings are nested deeper. */
function isDeeper(text: string, most: number): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === "\\") at += 1;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "[" || character === "{") depth += 1;
    else if (character === "]" || character === "}") depth -= 1;
    if (depth > most) return true;
  }
  return false;
}
