import { Badge, NameAndState, type Tone } from "../../components/badge.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { Facts } from "../../components/facts.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { Table } from "../../components/table.tsx";
import { useFetched } from "../../fetched.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { queryOf } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";

type Policy = "quarantine" | "reject";

interface Proposal {
  readonly kind: "ready" | "wait" | "strictest" | "unknown";
  readonly policy?: Policy;
  readonly because?: "few-days" | "few-messages" | "failing";
}

interface Source {
  readonly source: string;
  readonly sender?: string;
  readonly include?: string;
  readonly own: boolean;
  readonly is_sender: boolean;
  readonly messages: number;
  readonly counted: number;
  readonly passing: number;
  readonly dkim: number;
  readonly spf: number;
}

interface Received {
  readonly reporter: string;
  readonly day: string;
  readonly received: string;
  readonly messages: number;
  readonly counts: boolean;
  readonly why_not?: "unsigned" | "late";
}

interface TlsFailure {
  readonly exchanger: string;
  readonly result: string;
  readonly policy_type: string;
  readonly sessions: number;
}

interface Reported {
  readonly reports: number;
  readonly reporters: number;
  readonly days: number;
}

interface Reports {
  readonly records: readonly { readonly name: string; readonly type: string; readonly value: string }[];
  readonly dmarc: Reported & {
    readonly policy: "" | "none" | Policy;
    readonly messages: number;
    readonly counted: number;
    readonly counted_reports: number;
    readonly known_reporters: readonly string[];
    readonly passing: number;
    readonly lost_of_senders: number;
    readonly lost_of_others: number;
    readonly overridden: number;
    readonly proposal: Proposal;
    readonly sources: readonly Source[];
    readonly received: readonly Received[];
  };
  readonly tls: Reported & { readonly successes: number; readonly failures: readonly TlsFailure[] };
}

const PERIODS = [7, 30, 90, 365];

/** What receivers report about a sender domain: who sends as it, and what a stricter policy would hit. */
export function ReportsPage({ instance, domain }: { readonly instance: string; readonly domain: string }) {
  const words = texts().mail.reports;
  const [{ days = "30" }, setQuery] = useQuery();
  const fetched = useFetched<Reports>(instancePath(instance, "domains", domain, "reports") + queryOf({ days }));
  return (
    <Page
      title={words.title(domain)}
      crumbs={[{ label: texts().mail.domains.title, href: mailPage(instance, "settings", "domains") }]}
    >
      <div class="toolbar">
        <select
          aria-label={words.period}
          value={days}
          onChange={({ currentTarget }) => setQuery({ days: currentTarget.value })}
        >
          {PERIODS.map((one) => (
            <option key={one} value={String(one)}>
              {words.days(one)}
            </option>
          ))}
        </select>
      </div>
      <Loaded of={fetched}>
        {({ dmarc, tls, records }) => (
          <>
            {dmarc.reports === 0 ? <NothingYet /> : <Dmarc dmarc={dmarc} />}
            <Section title={words.tls} hint={words.tlsHint}>
              <Tls tls={tls} />
            </Section>
            <Section title={words.records} hint={words.recordsHint}>
              <CopyBlock
                label={words.records}
                text={records.map(({ name, type, value }) => `${name} ${type} ${value}`).join("\n")}
              />
            </Section>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function NothingYet() {
  const words = texts().mail.reports;
  return (
    <EmptyState icon="chart" title={words.empty}>
      <p>{words.emptyHint}</p>
    </EmptyState>
  );
}

function Dmarc({ dmarc }: { readonly dmarc: Reports["dmarc"] }) {
  const words = texts().mail.reports;
  return (
    <>
      <dl class="tiles">
        {(
          [
            [words.messages, dmarc.messages],
            [words.countedMessages, dmarc.counted],
            [words.passing, dmarc.passing],
            [words.lostOfSenders, dmarc.lost_of_senders],
            [words.lostOfOthers, dmarc.lost_of_others],
          ] as const
        ).map(([label, value]) => (
          <div key={label} class="tile">
            <dt>{label}</dt>
            <dd class="tile-value">{formatNumber(value)}</dd>
          </div>
        ))}
      </dl>
      <Section title={words.policy} hint={words.lostHint}>
        <p>
          <Badge tone={PROPOSAL_TONES[dmarc.proposal.kind]}>{dmarc.policy || words.noPolicy}</Badge>{" "}
          {proposalText(dmarc.proposal)}
        </p>
        <Facts
          facts={[
            { label: words.reports, value: formatNumber(dmarc.reports) },
            { label: words.countedReports, value: formatNumber(dmarc.counted_reports) },
            { label: words.reporters, value: formatNumber(dmarc.reporters) },
            { label: words.reportedDays, value: formatNumber(dmarc.days) },
            { label: words.overridden, value: formatNumber(dmarc.overridden) },
          ]}
        />
      </Section>
      <Section title={words.sources} hint={words.sourcesHint}>
        <Sources sources={dmarc.sources} />
      </Section>
      <Section title={words.received} hint={words.receivedHint(dmarc.known_reporters.join(", "))}>
        <ReceivedReports received={dmarc.received} />
      </Section>
    </>
  );
}

const PROPOSAL_TONES: Readonly<Record<Proposal["kind"], Tone>> = {
  ready: "good",
  strictest: "good",
  wait: "warn",
  unknown: "quiet",
};

function proposalText({ kind, policy, because }: Proposal): string {
  const { proposals } = texts().mail.reports;
  if (kind === "wait") return proposals.wait[because ?? "failing"](policy ?? "quarantine");
  if (kind === "ready") return proposals.ready(policy ?? "quarantine");
  return proposals[kind];
}

function Sources({ sources }: { readonly sources: readonly Source[] }) {
  const words = texts().mail.reports;
  return (
    <Table<Source>
      label={words.sources}
      rows={sources}
      rowKey={({ source }) => source}
      empty={<p class="hint">{words.empty}</p>}
      columns={[
        {
          id: "source",
          label: words.source,
          grows: true,
          cell: (one) => (
            <NameAndState
              name={
                <>
                  {one.own ? words.own : (one.sender ?? "")} <span class="mono hint">{one.source}</span>
                </>
              }
              state={<SourceState source={one} />}
            />
          ),
        },
        { id: "messages", label: words.messages, align: "end", cell: ({ messages }) => formatNumber(messages) },
        {
          id: "failing",
          label: words.failing,
          align: "end",
          cell: ({ messages, passing }) => formatNumber(messages - passing),
        },
        { id: "dkim", label: "DKIM", align: "end", optional: true, cell: ({ dkim }) => formatNumber(dkim) },
        { id: "spf", label: "SPF", align: "end", optional: true, cell: ({ spf }) => formatNumber(spf) },
        {
          id: "include",
          label: words.include,
          optional: true,
          cell: ({ include, messages, spf }) =>
            include !== undefined && spf < messages ? <span class="mono">include:{include}</span> : "",
        },
      ]}
    />
  );
}

function SourceState({ source: { messages, counted, passing, is_sender } }: { readonly source: Source }) {
  const words = texts().mail.reports;
  if (counted === 0) return <Badge tone="quiet">{words.unconfirmed}</Badge>;
  if (passing === messages) return <Badge tone="good">{words.passes}</Badge>;
  if (passing > 0) return <Badge tone="warn">{words.partly}</Badge>;
  return <Badge tone={is_sender ? "warn" : "bad"}>{is_sender ? words.fails : words.stranger}</Badge>;
}

/** What came, and whether it counts. */
function ReceivedReports({ received }: { readonly received: readonly Received[] }) {
  const words = texts().mail.reports;
  return (
    <Table<Received>
      label={words.received}
      rows={received}
      rowKey={({ reporter, received: at, day }) => `${reporter} ${at} ${day}`}
      empty={<p class="hint">{words.empty}</p>}
      columns={[
        {
          id: "reporter",
          label: words.reporter,
          grows: true,
          cell: ({ reporter, why_not }) => (
            <NameAndState
              name={reporter}
              state={
                <Badge tone={why_not === undefined ? "good" : "quiet"}>
                  {why_not === undefined ? words.counts : words.countsNot[why_not]}
                </Badge>
              }
            />
          ),
        },
        { id: "day", label: words.day, cell: ({ day }) => day },
        { id: "received", label: words.receivedAt, optional: true, cell: (one) => formatTime(one.received) },
        { id: "messages", label: words.messages, align: "end", cell: ({ messages }) => formatNumber(messages) },
      ]}
    />
  );
}

function Tls({ tls }: { readonly tls: Reports["tls"] }) {
  const words = texts().mail.reports;
  if (tls.reports === 0) return <p class="hint">{words.noTls}</p>;
  return (
    <>
      <Facts
        facts={[
          { label: words.reports, value: formatNumber(tls.reports) },
          { label: words.sessions, value: formatNumber(tls.successes) },
        ]}
      />
      <Table<TlsFailure>
        label={words.tls}
        rows={tls.failures}
        rowKey={({ exchanger, result, policy_type }) => `${exchanger} ${result} ${policy_type}`}
        empty={<p class="hint">{words.noTlsFailures}</p>}
        columns={[
          {
            id: "result",
            label: words.reason,
            grows: true,
            cell: ({ result }) => (
              <>
                {(words.tlsResults as Readonly<Record<string, string>>)[result] ?? ""}{" "}
                <span class="mono hint">{result}</span>
              </>
            ),
          },
          {
            id: "exchanger",
            label: words.exchanger,
            cell: ({ exchanger }) => <span class="mono">{exchanger || "–"}</span>,
          },
          { id: "policy", label: words.policyType, optional: true, cell: ({ policy_type }) => policy_type },
          { id: "sessions", label: words.sessions, align: "end", cell: ({ sessions }) => formatNumber(sessions) },
        ]}
      />
    </>
  );
}
