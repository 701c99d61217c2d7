import { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from "prom-client";
import { BOUNCE_REASONS } from "../../core/mail/bounce/reason.ts";
import {
  type Consequences,
  consequenceOf,
  type InboundClass,
  type Observation,
  type ObservationKind,
  type ObservedBounce,
} from "./observation.ts";

/** The metrics of this process; the supervisor gathers those of all services (see services/cli/supervisor.ts). */
export const registry = new Registry();

/** Counts every observation by its kind. */
const observations = new Counter({
  name: "palomar_observations_total",
  help: "Observations by kind",
  labelNames: ["kind"],
  registers: [registry],
});

/**
 * Those that alert rules name. An increase is of two values: what a counter begins with is none, so all that alert rules count
 * is there from the start, as 0.
 */
const ALERTED_KINDS: readonly ObservationKind[] = [
  "instance-suspicious",
  "notify-given-up",
  "key-wrong",
  "key-not-looked-at",
  "submission-login-failed",
  "tracking-event-lost",
  "tracking-event-dropped",
  "outcomes-not-stored",
];
for (const kind of ALERTED_KINDS) observations.inc({ kind }, 0);

const httpSeconds = new Histogram({
  name: "palomar_http_request_seconds",
  help: "Time from a request's head to its answer, by service, method and class of status",
  labelNames: ["service", "method", "status"],
  buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
  registers: [registry],
});

const publicationSeconds = new Histogram({
  name: "palomar_dns_publication_seconds",
  help: "Time from reading a change of zones to answering by it",
  buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
  registers: [registry],
});

const deliveries = new Counter({
  name: "palomar_delivery_attempts_total",
  help: "Delivery attempts that have ended, by outcome",
  labelNames: ["outcome"],
  registers: [registry],
});

for (const outcome of ["delivered", "deferred", "bounced"]) deliveries.inc({ outcome }, 0);

const reports = new Counter({
  name: "palomar_delivery_reports_total",
  help: "Reports to who submitted messages, by what they tell (failure, delay, success) and outcome (sent, put-off, withheld)",
  labelNames: ["kind", "outcome"],
  registers: [registry],
});

const bounces = new Counter({
  name: "palomar_bounces_total",
  help: "Bounces by where they were noticed (session, report), class (hard, soft) and reason",
  labelNames: ["noticed", "class", "reason"],
  registers: [registry],
});
for (const noticed of ["session", "report"]) {
  for (const reason of BOUNCE_REASONS) {
    for (const severity of ["hard", "soft"]) bounces.inc({ noticed, class: severity, reason }, 0);
  }
}

const complaints = new Counter({
  name: "palomar_complaints_total",
  help: "Complaints of recipients about a message that was sent to them",
  registers: [registry],
});

const inboundRefused = new Counter({
  name: "palomar_inbound_refused_total",
  help: "Recipients and messages that the way back did not take, by class of recipient and limit",
  labelNames: ["class", "reason"],
  registers: [registry],
});

const inboundDropped = new Counter({
  name: "palomar_inbound_dropped_total",
  help: "Messages that were taken and not kept, as nothing follows from them, by class of recipient and reason",
  labelNames: ["class", "reason"],
  registers: [registry],
});

const INBOUND_CLASSES: Readonly<Record<InboundClass, string>> = {
  returnPath: "return-path",
  feedback: "feedback",
  report: "report",
};
for (const one of Object.values(INBOUND_CLASSES)) {
  for (const reason of ["size", "source-rate", "rate", "waiting"]) inboundRefused.inc({ class: one, reason }, 0);
}

const senderReports = new Counter({
  name: "palomar_sender_reports_total",
  help: "Reports about sender domains that count, by kind (dmarc, tls)",
  labelNames: ["kind"],
  registers: [registry],
});

const tlsReports = new Counter({
  name: "palomar_tls_reports_total",
  help: "Attempts to report to a domain what came of TLS in sessions with it, by way (mail, https) and outcome (sent, due, failed)",
  labelNames: ["by", "outcome"],
  registers: [registry],
});

const repeats = new Counter({
  name: "palomar_delivery_possible_repeats_total",
  help: "Messages that a worker may have sent and died before it noted that, at most: they are sent again",
  registers: [registry],
});

const paceRefusals = new Counter({
  name: "palomar_pace_refusals_total",
  help: "Replies of providers that want less, by what (rate, connections, messages-per-connection)",
  labelNames: ["concerns"],
  registers: [registry],
});
for (const concerns of ["rate", "connections", "messages-per-connection"]) paceRefusals.inc({ concerns }, 0);

const warmUpPauses = new Counter({
  name: "palomar_warm_up_pauses_total",
  help: "Pauses of plans that new source addresses follow, at one provider each, by why (deferrals, complaints)",
  labelNames: ["reason"],
  registers: [registry],
});
for (const reason of ["deferrals", "complaints"]) warmUpPauses.inc({ reason }, 0);

const webhookBatches = new Counter({
  name: "palomar_webhook_batches_total",
  help: "Requests to webhooks that have ended, by what became of the batch (delivered, waiting for another attempt, failed)",
  labelNames: ["state"],
  registers: [registry],
});
for (const state of ["delivered", "waiting", "failed"]) webhookBatches.inc({ state }, 0);

const smtpFailures = new Counter({
  name: "palomar_smtp_failures_total",
  help: "Commands and messages that were answered with 451 as something failed on our side, by listener (submission, mx)",
  labelNames: ["listener"],
  registers: [registry],
});
for (const listener of ["submission", "mx"]) smtpFailures.inc({ listener }, 0);

const eventStreams = new Gauge({
  name: "palomar_event_streams",
  help: "Streams of events that are open",
  registers: [registry],
});

const eventStreamsCut = new Counter({
  name: "palomar_event_streams_cut_total",
  help: "Streams of events that were cut off because their reader took nothing",
  registers: [registry],
});

/** What an observation adds to the metrics beside its count. */
const MEASURED: Consequences<[service: string], void> = {
  "http-request": ({ method, status, ms }, service) => {
    expectErrors(service, method);
    httpSeconds.observe({ service, method, status: `${String(status)[0]}xx` }, ms / 1_000);
  },
  "zones-published": ({ changed, ms }) => {
    if (changed > 0) publicationSeconds.observe(ms / 1_000);
  },
  "delivery-delivered": () => deliveries.inc({ outcome: "delivered" }),
  "delivery-deferred": () => deliveries.inc({ outcome: "deferred" }),
  "delivery-bounced": ({ bounceClass }) => {
    deliveries.inc({ outcome: "bounced" });
    countBounce("session", bounceClass);
  },
  // A client that has left is of the level "info".
  "smtp-handler-failed": ({ listener, level }) => {
    if (level === "error") smtpFailures.inc({ listener });
  },
  "webhook-delivered": () => webhookBatches.inc({ state: "delivered" }),
  "webhook-waiting": () => webhookBatches.inc({ state: "waiting" }),
  "webhook-failed": () => webhookBatches.inc({ state: "failed" }),
  "event-stream-opened": () => eventStreams.inc(),
  "event-stream-ended": ({ why }) => {
    eventStreams.dec();
    if (why === "slow") eventStreamsCut.inc();
  },
  "delivery-report": ({ of, outcome }) => reports.inc({ kind: of, outcome }),
  "tls-report": ({ by, outcome }) => tlsReports.inc({ by, outcome }),
  "pace-refused": ({ concerns }) => paceRefusals.inc({ concerns }),
  "warm-up-paused": ({ reason }) => warmUpPauses.inc({ reason }),
  "leases-taken-over": ({ mostRepeated }) => repeats.inc(mostRepeated),
  "inbound-refused": ({ recipientClass, reason }) =>
    inboundRefused.inc({ class: INBOUND_CLASSES[recipientClass], reason }),
  "inbound-dropped": ({ recipientClass, reason }) =>
    inboundDropped.inc({ class: INBOUND_CLASSES[recipientClass], reason }),
  "report-counted": ({ report }) => senderReports.inc({ kind: report }),
  // What is about no delivery of ours, as anybody may write it, says nothing about our mail.
  "inbound-applied": ({ consequence, bounces: reported }) => {
    if (consequence === "complaint") complaints.inc();
    if (consequence !== "bounce") return;
    for (const bounce of reported) countBounce("report", bounce);
  },
};

for (const kind of ["dmarc", "tls"]) senderReports.inc({ kind }, 0);

const expected = new Set<string>();

/** Errors of ours are counted from 0 on, for each method that was ever asked. */
function expectErrors(service: string, method: string): void {
  const asked = `${service} ${method}`;
  if (expected.has(asked)) return;
  expected.add(asked);
  httpSeconds.zero({ service, method, status: "5xx" });
}

function countBounce(noticed: "session" | "report", bounce: ObservedBounce | undefined): void {
  if (bounce) bounces.inc({ noticed, class: bounce.hard ? "hard" : "soft", reason: bounce.reason });
}

/** Adds an observation to the metrics. */
export function measure(observation: Observation, service: string): void {
  observations.inc({ kind: observation.kind });
  consequenceOf(MEASURED, observation, service);
}

/** The metric families of one process as prom-client hands them between processes. */
export type MetricFamilies = object[];

/** What is read of a family here. */
interface Family {
  readonly name: string;
  readonly type: string;
  readonly values: readonly {
    readonly value: number;
    readonly labels: Readonly<Record<string, string>>;
    /** Of a histogram: which of its parts it is. */
    readonly metricName?: string;
  }[];
}

export async function collectMetrics(): Promise<MetricFamilies> {
  return (await registry.getMetricsAsJSON()) as MetricFamilies;
}

/** The value of a gauge without labels among families; undefined where it is not. */
export function gaugeValue(families: MetricFamilies, name: string): number | undefined {
  const family = (families as Family[]).find((one) => one.name === name);
  return family?.values[0]?.value;
}

/** The values that a label of a metric has among families, in their order. */
export function labelsOf(
  families: MetricFamilies,
  { metric, label }: { readonly metric: string; readonly label: string },
): string[] {
  const family = (families as Family[]).find(({ name }) => name === metric);
  return (family?.values ?? []).map(({ labels }) => labels[label]!).filter((value) => value !== undefined);
}

/**
 * What only grows of the families of two processes, added up.
 * @returns counters and histograms alone
 */
export function addCounts(one: MetricFamilies, other: MetricFamilies): MetricFamilies {
  const sums = new Map<string, Family>();
  for (const family of [...one, ...other] as Family[]) {
    if (family.type !== "counter" && family.type !== "histogram") continue;
    const sum = sums.get(family.name);
    sums.set(family.name, { ...family, values: sum ? addValues(sum.values, family.values) : family.values });
  }
  return [...sums.values()];
}

function addValues(one: Family["values"], other: Family["values"]): Family["values"] {
  const sums = new Map<string, Family["values"][number]>();
  for (const series of [...one, ...other]) {
    const { metricName = "", labels } = series;
    const key = JSON.stringify([metricName, Object.entries(labels).sort()]);
    sums.set(key, { ...series, value: series.value + (sums.get(key)?.value ?? 0) });
  }
  return [...sums.values()];
}

/** Sums the families of several processes into one Prometheus exposition text. */
export async function aggregateMetrics(processes: readonly MetricFamilies[]): Promise<string> {
  // A gauge that nobody has a value of would come out as 0.
  const isKnown = ({ type, values }: Family) => type !== "gauge" || values.length > 0;
  const known = processes.map((families) => (families as Family[]).filter(isKnown));
  return AggregatorRegistry.aggregate(known as never).metrics();
}
