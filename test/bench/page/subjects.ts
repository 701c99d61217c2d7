import { FLOOR, FORGETFUL } from "../dns-report.ts";
import { describeWay } from "../mail-load.ts";
import type { BarChart } from "./bar-chart.ts";
import { type BenchmarkName, bestDelivered, type Results } from "./results.ts";
import { type ComparedRow, type Comparison, formatComparison, formatFigure, formatTable } from "./table.ts";

/** A part of the page: what it is about, its table, and a chart with the name of its files. */
export interface Subject {
  readonly title: string;
  readonly text: string;
  readonly table: string;
  readonly chart?: BarChart & { readonly file: string };
}

type ServerRow = NonNullable<Results["dns"]["small"]>[number];

/** What is compared with is the better of these two: BIND and PowerDNS are slower by far. */
const FAST_PEERS = ["NSD", "Knot"];

/** The subjects that a benchmark's result is shown under. */
export const SUBJECTS: { readonly [Name in BenchmarkName]: (result: Results[Name]) => Subject[] } = {
  dns: ({ small, threads, large }) => [
    ...(small ? [answers("Answers from small zones", "dns-small", small)] : []),
    ...(threads ? [allCores(threads)] : []),
    ...(large ? [answers("Answers from a million records", "dns-large", large.rows), changes(large.changes)] : []),
  ],
  dnssec: ({ names, signing, changes: signed, serving }) => {
    const programs = ["Palomar", ...(signing.signzoneSeconds === undefined ? [] : ["dnssec-signzone"])];
    const figures = [signing.seconds, signing.signzoneSeconds].slice(0, programs.length);
    const own = { programs, rows: [less(`signing ${formatFigure(names)} names`, "s", figures)] };
    const answered = serverRows(serving);
    const [p50, p99] = [formatFigure(signed.wireP50Ms), formatFigure(signed.wireP99Ms)];
    return [
      {
        title: "Signing",
        text: `A zone is signed as a whole, and changed while it is signed: a change is on the wire after ${p50} ms (p50), ${p99} ms (p99).`,
        table: formatComparison(own),
        chart: chartOf("signing", own),
      },
      {
        title: "Signed answers",
        text: "Queries with DO, answers with signatures.",
        table: formatComparison(answered),
        chart: chartOf("dns-signed", answered),
      },
    ];
  },
  transfer: ({ records, results }) => {
    const programs = ["Palomar", ...Object.keys(results).filter((name) => name !== "Palomar")];
    const rows = [
      less(
        "time, the fastest round",
        "ms",
        programs.map((name) => results[name]?.ms),
        FAST_PEERS,
      ),
      less(
        "size",
        "MB",
        programs.map((name) => (results[name]?.octets ?? Number.NaN) / 1e6),
        FAST_PEERS,
      ),
    ];
    return [
      {
        title: "Zone transfer",
        text: `AXFR of a zone of ${formatFigure(records)} records.`,
        table: formatComparison({ programs, rows }),
        chart: chartOf("transfer", { programs, rows }),
      },
    ];
  },
  api: ({ palomar, powerDns }) => {
    const rows = [
      more("records created", "a second", [palomar.perSecond, powerDns?.perSecond]),
      less("a request, p50", "ms", [palomar.p50Ms, powerDns?.p50Ms]),
      less("a request, p99", "ms", [palomar.p99Ms, powerDns?.p99Ms]),
    ];
    const own = { programs: ["Palomar", "PowerDNS"], rows };
    return [
      {
        title: "Changes by the API",
        text: "Each request creates one record, and is answered once it is on the disk.",
        table: formatComparison(own),
        chart: chartOf("api", own),
      },
    ];
  },
  mail: ({ recipients, palomar, postfix }) => {
    const own = {
      programs: ["Palomar", "Postfix with OpenDKIM"],
      rows: [
        more("batches", "messages a second", [palomar.batch?.deliveredPerSecond, bestDelivered(postfix)]),
        ...palomar.submission.flatMap(({ acceptedPerSecond, deliveredPerSecond, ...way }, index) => [
          more(`accepted by ${describeWay(way)}`, "messages a second", [
            ...[acceptedPerSecond, postfix[index]?.acceptedPerSecond],
          ]),
          more(`delivered by ${describeWay(way)}`, "messages a second", [
            ...[deliveredPerSecond, postfix[index]?.deliveredPerSecond],
          ]),
        ]),
      ],
    };
    const queues = (palomar.queue ?? []).map(({ queued, workerMs, postgresMs }) => [
      ...[formatFigure(queued), formatFigure(workerMs), formatFigure(postgresMs)],
    ]);
    const queued = formatTable(["recipients queued", "worker, ms a message", "PostgreSQL, ms a message"], queues);
    const { batch } = palomar;
    const call = batch
      ? `; the API's slowest call of 10,000 returns after ${formatFigure(batch.callMs)} ms, of a process that has just started after ${formatFigure(batch.firstCallMs)} ms`
      : "";
    return [
      {
        title: "Mail",
        text: `Batches to ${formatFigure(recipients)} recipients${call}. Every message has 10 KB, is signed with DKIM and delivered to a sink; Palomar composes those of batches, and takes the others with AUTH, Postfix without; one client submits to both. Postfix's best figure stands beside batches. All programs were used before.`,
        table: queues.length === 0 ? formatComparison(own) : `${formatComparison(own)}\n\n${queued}`,
        chart: chartOf("mail", own),
      },
    ];
  },
  tracking: ({ clicksPerSecond, p50Ms, p99Ms, cpuMicroseconds, storedMs, killed }) => [
    {
      title: "Tracking",
      text: `Clicks on links of messages, on one core. All were in the database ${storedMs} ms after the load ended. Killed under load, the service had answered ${formatFigure(killed.answered)} clicks and stored ${formatFigure(killed.stored)}.`,
      table: formatTable(
        ["clicks a second", "p50, ms", "p99, ms", "processor time a click, µs"],
        [[clicksPerSecond, p50Ms, p99Ms, cpuMicroseconds].map(formatFigure)],
      ),
    },
  ],
  events: ({ events, ingestedPerSecond, queries }) => [
    {
      title: "Events",
      text: `Queries over ${formatFigure(events)} events, taken in at ${formatFigure(ingestedPerSecond)} a second.`,
      table: formatQueries("query", queries),
    },
  ],
  explorer: ({ deliveries, p95Ms, searches }) => [
    {
      title: "Messages",
      text: `Searches among ${formatFigure(deliveries)} deliveries with three attempts each, a page of 50 and the page behind it. All together: p95 ${formatFigure(p95Ms)} ms.`,
      table: formatQueries("search", searches),
    },
  ],
};

function formatQueries(what: string, queries: Results["events"]["queries"]): string {
  return formatTable(
    [what, "p50, ms", "p95, ms"],
    queries.map(({ name, p50Ms, p95Ms }) => [name, formatFigure(p50Ms), formatFigure(p95Ms)]),
  );
}

function answers(title: string, file: string, measured: readonly ServerRow[]): Subject {
  const comparison = serverRows(measured);
  const floor = measured.some(({ name }) => name === FLOOR)
    ? " The floor is what Palomar's sockets take alone, in a program that sends each query back."
    : "";
  const forgetful = measured.some(({ name }) => name === FORGETFUL)
    ? " Without its answer cache Palomar makes each answer anew; two of three queries for the small zones have come before, one of five for a million records."
    : "";
  const text = `A query for a name that is there, over UDP, the server on one core. Lost are queries without an answer.${forgetful}${floor}`;
  return { title, text, table: formatComparison(comparison), chart: chartOf(file, comparison) };
}

function serverRows(measured: readonly ServerRow[]): Comparison {
  const sorted = measured.toSorted((a, b) => Number(b.name === "Palomar") - Number(a.name === "Palomar"));
  const of = (field: keyof ServerRow) => sorted.map((row) => row[field] as number | undefined);
  const all = [
    less("processor time a query", "µs", of("cpuMicroseconds"), FAST_PEERS),
    more("answers", "a second", of("queriesPerSecond"), FAST_PEERS),
    less("lost", "", of("lost"), []),
    less(
      "start",
      "s",
      of("startMs").map((ms) => ms && ms / 1_000),
      FAST_PEERS,
    ),
    less("memory a record", "octets", of("octetsPerRecord"), FAST_PEERS),
  ];
  const rows = all.filter(({ figures }) => figures.some((figure) => figure !== undefined));
  return { programs: sorted.map(({ name }) => name), rows };
}

/** What one process makes of cores that it shares with those who ask it. */
function allCores(results: NonNullable<Results["dns"]["threads"]>): Subject {
  const lines = results.map(({ serverThreads, clientThreads, queriesPerSecond, cpuMicroseconds }) => [
    ...[serverThreads, clientThreads, queriesPerSecond, cpuMicroseconds].map(formatFigure),
  ]);
  return {
    title: "Answers with all cores",
    text: "The small zones again. Threads that answer and threads that ask share the machine's cores: where both have too few, a thread of either kind takes from the other.",
    table: formatTable(
      ["threads that answer", "threads that ask", "answers, a second", "processor time a query, µs"],
      lines,
    ),
  };
}

function changes(measured: NonNullable<Results["dns"]["large"]>["changes"]): Subject {
  const lines = measured.map((change) => [
    ...[change.changesPerSecond, change.wireP50Ms, change.wireP99Ms, change.answerP999Ms].map(formatFigure),
    ...[change.knotAnswerP999Ms, change.unanswered].map(formatFigure),
  ]);
  const head = ["changes a second", "on the wire p50, ms", "p99, ms", "answers meanwhile p99.9, ms"];
  return {
    title: "Changes to a million records",
    text: "From the commit to the first answer that has it, while queries go on; beside it Knot's answers, which has no changes.",
    table: formatTable([...head, "Knot's p99.9, ms", "unanswered"], lines),
  };
}

function less(what: string, unit: string, figures: ComparedRow["figures"], peers?: readonly string[]): ComparedRow {
  return { what, unit, better: "less", figures, ...(peers && { peers }) };
}

function more(what: string, unit: string, figures: ComparedRow["figures"], peers?: readonly string[]): ComparedRow {
  return { what, unit, better: "more", figures, ...(peers && { peers }) };
}

/** The first row of a comparison, drawn. */
function chartOf(file: string, { programs, rows: [row] }: Comparison): Subject["chart"] & {} {
  const { what, unit, better, figures } = row!;
  const bars = programs.flatMap((name, place) => {
    const figure = figures[place];
    return figure === undefined ? [] : { name, figure };
  });
  return { file, title: `${what[0]!.toUpperCase()}${what.slice(1)}, ${unit}: ${better} is better`, bars };
}
