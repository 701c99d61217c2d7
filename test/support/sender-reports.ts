import { gzipSync } from "node:zlib";

const DAY_SECONDS = 86_400;

/** One row of a DMARC aggregate, as far as a test says it. */
export interface TestRecord {
  readonly source?: string;
  readonly count?: number;
  readonly from?: string;
  readonly dkim?: "pass" | "fail";
  readonly spf?: "pass" | "fail";
  readonly disposition?: string;
  readonly reason?: string;
  readonly signedBy?: string;
  readonly returnPath?: string;
}

export interface TestAggregate {
  readonly id?: string;
  readonly reporter?: string;
  readonly domain?: string;
  readonly policy?: string;
  /** How many days ago it begins. */
  readonly daysAgo?: number;
  readonly records?: readonly TestRecord[];
  /** The form of RFC 9990, with its name space. */
  readonly modern?: boolean;
}

/** A DMARC aggregate. */
export function aggregateXml(aggregate: TestAggregate = {}): string {
  const { id = "1", reporter = "Receiver", domain = "sender.example.org", policy = "none", daysAgo = 1 } = aggregate;
  const { records = [{}], modern = false } = aggregate;
  const begin = Math.floor(Date.now() / 1_000) - daysAgo * DAY_SECONDS;
  return `<?xml version="1.0" encoding="UTF-8" ?>
<feedback${modern ? ' xmlns="urn:ietf:params:xml:ns:dmarc-2.0"' : ""}>
  <version>1.0</version>
  <report_metadata>
    <org_name>${reporter}</org_name><email>dmarc@receiver.example.net</email><report_id>${id}</report_id>
    <date_range><begin>${begin}</begin><end>${begin + 3_600}</end></date_range>
  </report_metadata>
  <policy_published><domain>${domain}</domain><adkim>r</adkim><aspf>r</aspf><p>${policy}</p>${
    modern ? "<np>none</np><testing>n</testing><discovery_method>treewalk</discovery_method>" : "<pct>100</pct>"
  }</policy_published>
${records.map((record) => recordXml(record, domain)).join("")}</feedback>
`;
}

function recordXml(record: TestRecord, domain: string): string {
  const { source = "192.0.2.1", count = 1, from = domain, dkim = "pass", spf = "pass", disposition = "none" } = record;
  const { reason, signedBy = from, returnPath = from } = record;
  return `  <record>
    <row><source_ip>${source}</source_ip><count>${count}</count>
      <policy_evaluated><disposition>${disposition}</disposition><dkim>${dkim}</dkim><spf>${spf}</spf>${
        reason ? `<reason><type>${reason}</type><comment>why</comment></reason>` : ""
      }</policy_evaluated></row>
    <identifiers><header_from>${from}</header_from></identifiers>
    <auth_results>
      <dkim><domain>${signedBy}</domain><selector>s</selector><result>${dkim}</result></dkim>
      <spf><domain>${returnPath}</domain><result>${spf}</result></spf>
    </auth_results>
  </record>
`;
}

/** A report about TLS: sessions that succeeded, and failures by exchanger and reason. */
export function tlsReportJson(
  options: {
    readonly id?: string;
    readonly domain?: string;
    readonly successes?: number;
    readonly failures?: readonly { readonly mx: string; readonly result: string; readonly count: number }[];
  } = {},
): string {
  const { id = "1", domain = "sender.example.org", successes = 10, failures = [] } = options;
  const day = new Date(Date.now() - DAY_SECONDS * 1_000).toISOString().slice(0, 10);
  return JSON.stringify({
    "organization-name": "Receiver",
    "date-range": { "start-datetime": `${day}T00:00:00Z`, "end-datetime": `${day}T23:59:59Z` },
    "contact-info": "tls@receiver.example.net",
    "report-id": id,
    policies: [
      {
        policy: {
          "policy-type": "sts",
          "policy-string": ["version: STSv1"],
          "policy-domain": domain,
          "mx-host": ["mx"],
        },
        summary: {
          "total-successful-session-count": successes,
          "total-failure-session-count": failures.reduce((sum, { count }) => sum + count, 0),
        },
        "failure-details": failures.map(({ mx, result, count }) => ({
          "result-type": result,
          "receiving-mx-hostname": mx,
          "failed-session-count": count,
        })),
      },
    ],
  });
}

/** A message that carries a report as an attachment. */
export function reportMessage(
  content: Buffer | string,
  { type = "application/gzip", encoding = "base64" }: { readonly type?: string; readonly encoding?: string } = {},
): string {
  const octets = Buffer.from(content);
  const body =
    encoding === "base64" ? octets.toString("base64").replace(/.{76}/g, "$&\r\n") : octets.toString("latin1");
  return [
    "From: dmarc@receiver.example.net",
    "To: reports@example.org",
    "Subject: Report Domain: sender.example.org",
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="cut"',
    "",
    "--cut",
    "Content-Type: text/plain",
    "",
    "This is a report.",
    "--cut",
    `Content-Type: ${type}; name="report"`,
    `Content-Transfer-Encoding: ${encoding}`,
    "",
    body,
    "--cut--",
    "",
  ].join("\r\n");
}

export const gzipped = (text: string): Buffer => gzipSync(text);
