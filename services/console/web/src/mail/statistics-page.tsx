import { Chart } from "../components/chart.tsx";
import { EmptyState } from "../components/empty-state.tsx";
import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { queryOf } from "../http.ts";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { instancePath } from "./addresses.ts";
import type { Campaign } from "./campaigns/campaign.ts";

type Step = "minute" | "hour" | "day";

interface Point {
  readonly at: string;
  readonly sent: number;
  readonly views: number;
  readonly clicks: number;
  readonly bounces: number;
  readonly machineViews: number;
  readonly machineClicks: number;
}

interface BounceCount {
  readonly reason?: string;
  readonly destination?: string;
  readonly hard: number;
  readonly soft: number;
}

const HOUR_MS = 3_600_000;
const REFRESH_MS = 30_000;

/** How far back each choice looks, and in which steps. */
const PERIODS = {
  hour: { lengthMs: HOUR_MS, step: "minute" },
  day: { lengthMs: 24 * HOUR_MS, step: "hour" },
  week: { lengthMs: 7 * 24 * HOUR_MS, step: "hour" },
  month: { lengthMs: 30 * 24 * HOUR_MS, step: "day" },
  year: { lengthMs: 365 * 24 * HOUR_MS, step: "day" },
} as const satisfies Record<string, { readonly lengthMs: number; readonly step: Step }>;
type Period = keyof typeof PERIODS;
const STEP_MS: Readonly<Record<Step, number>> = { minute: 60_000, hour: HOUR_MS, day: 24 * HOUR_MS };

/** Sent, opened, clicked, bounced over time; bounces by reason and by destination. */
export function StatisticsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.statistics;
  const [query, setQuery] = useQuery();
  const { campaign = "" } = query;
  const period: Period = query.period !== undefined && query.period in PERIODS ? (query.period as Period) : "month";
  const { lengthMs, step } = PERIODS[period];
  // To the step, from which on the points count, so that everything on the page is about the same time.
  const stepMs = STEP_MS[step];
  const from = new Date(Math.floor((Date.now() - lengthMs) / stepMs) * stepMs).toISOString();
  const selection = { campaign, from };
  const campaigns = useFetched<{ campaigns: readonly Campaign[] }>(
    instancePath(instance, "campaigns") + queryOf({ limit: 200 }),
  );
  const series = useFetched<{ series: readonly Point[] }>(
    instancePath(instance, "statistics") + queryOf({ ...selection, step }),
    REFRESH_MS,
  );
  return (
    <Page title={words.title}>
      <div class="toolbar">
        <select
          aria-label={words.period}
          value={period}
          onChange={({ currentTarget }) => setQuery({ period: currentTarget.value })}
        >
          {Object.keys(PERIODS).map((id) => (
            <option key={id} value={id}>
              {words.periods[id as Period]}
            </option>
          ))}
        </select>
        <select
          aria-label={words.campaign}
          value={campaign}
          onChange={({ currentTarget }) => setQuery({ campaign: currentTarget.value || undefined })}
        >
          <option value="">{words.allCampaigns}</option>
          {campaigns.value?.campaigns.map(({ numid, nombre }) => (
            <option key={numid} value={String(numid)}>
              {nombre}
            </option>
          ))}
        </select>
      </div>
      <Loaded of={series}>{({ series: points }) => <Curves points={points} areUtcDays={step === "day"} />}</Loaded>
      <Section title={words.byReason} hint={words.byReasonHint}>
        <Bounces path={instancePath(instance, "bounces") + queryOf({ ...selection, by: "reason" })} />
      </Section>
      <Section title={words.byDestination}>
        <Bounces path={instancePath(instance, "bounces") + queryOf({ ...selection, by: "destination" })} />
      </Section>
    </Page>
  );
}

function Curves({ points, areUtcDays }: { readonly points: readonly Point[]; readonly areUtcDays: boolean }) {
  const words = texts().mail.statistics;
  const sum = (of: (point: Point) => number) => points.reduce((total, point) => total + of(point), 0);
  const totals: readonly (readonly [string, number])[] = [
    [words.sent, sum(({ sent }) => sent)],
    [words.views, sum(({ views }) => views)],
    [words.clicks, sum(({ clicks }) => clicks)],
    [words.bounces, sum(({ bounces }) => bounces)],
    [words.machineViews, sum(({ machineViews }) => machineViews)],
    [words.machineClicks, sum(({ machineClicks }) => machineClicks)],
  ];
  if (totals.every(([, total]) => total === 0)) {
    return (
      <EmptyState icon="chart" title={words.empty}>
        <p>{words.emptyHint}</p>
      </EmptyState>
    );
  }
  return (
    <>
      <dl class="tiles">
        {totals.map(([label, total]) => (
          <div key={label} class="tile">
            <dt>{label}</dt>
            <dd class="tile-value">{formatNumber(total)}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">{areUtcDays ? words.utcDays : words.readersHours}</p>
      <Chart
        label={words.title}
        areUtcDays={areUtcDays}
        times={points.map(({ at }) => new Date(at).getTime() / 1_000)}
        series={[
          { label: words.sent, colour: "--ink-soft", values: points.map(({ sent }) => sent) },
          { label: words.views, colour: "--accent", values: points.map(({ views }) => views) },
          { label: words.clicks, colour: "--good", values: points.map(({ clicks }) => clicks) },
          { label: words.bounces, colour: "--bad", values: points.map(({ bounces }) => bounces) },
          { label: words.machineViews, colour: "--warn", values: points.map(({ machineViews }) => machineViews) },
        ]}
      />
    </>
  );
}

/** What the reason's name means, and the name itself, which the API and the rules go by. */
function Reason({ reason }: { readonly reason: string }) {
  const meaning = (texts().mail.bounceReasons as Readonly<Record<string, string>>)[reason];
  return (
    <>
      {meaning ?? reason} {meaning !== undefined && <span class="mono hint">{reason}</span>}
    </>
  );
}

/** Counts with bars, the most frequent first. */
function Bounces({ path }: { readonly path: string }) {
  const words = texts().mail.statistics;
  const counted = useFetched<{ bounces: readonly BounceCount[] }>(path);
  return (
    <Loaded of={counted}>
      {({ bounces }) => {
        if (bounces.length === 0) return <p class="hint">{words.noBounces}</p>;
        const most = Math.max(...bounces.map(({ hard, soft }) => hard + soft));
        return (
          <ul class="bar-list">
            {bounces.map(({ reason, destination, hard, soft }) => (
              <li key={reason ?? destination}>
                <span>{reason === undefined ? destination : <Reason reason={reason} />}</span>
                <span class="number">{words.hardAndSoft(formatNumber(hard), formatNumber(soft))}</span>
                <div class="bar">
                  <span style={{ width: `${(100 * (hard + soft)) / most}%` }} />
                </div>
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  );
}
