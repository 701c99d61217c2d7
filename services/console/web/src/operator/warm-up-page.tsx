import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Button } from "../components/button.tsx";
import { Chart } from "../components/chart.tsx";
import { ConfirmDialog } from "../components/dialog.tsx";
import { EmptyState } from "../components/empty-state.tsx";
import { Facts } from "../components/facts.tsx";
import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber, formatTime } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import type { Progress, ShownWarmUp } from "./warm-up.ts";
import { WarmUpStates } from "./warm-ups-page.tsx";

const REFRESH_MS = 10_000;

type Verb = "pause" | "resume" | "stop";

/** A source that sends by a plan: what is planned and was sent by day at each provider, and the operator's hand on it. */
export function WarmUpPage({ source }: { readonly source: string }) {
  const { warmUps: words } = texts().operator;
  const path = pathOf("warm-ups", source);
  const warmUp = useFetched<ShownWarmUp>(path, REFRESH_MS);
  const [stopping, setStopping] = useState(false);
  const said = { pause: words.isPaused, resume: words.isResumed, stop: words.isStopped };
  const turn = (verb: Verb) => request("POST", `${path}/${verb}`);
  const act = useAction(turn, (_reply, verb: Verb) => {
    showToast(said[verb]);
    warmUp.reload();
  });
  const { value } = warmUp;
  const isUnderWay = value?.state === "running" || value?.state === "paused";
  const verb = value?.state === "paused" ? "resume" : "pause";
  return (
    <Page
      title={source}
      crumbs={[{ label: words.title, href: "/operator/warm-ups" }]}
      badges={value && <WarmUpStates of={value} />}
      actions={
        isUnderWay && (
          <>
            <Button busy={act.busy} onClick={() => void act.run(verb)}>
              {words[verb]}
            </Button>
            <Button onClick={() => setStopping(true)}>{words.stop}</Button>
          </>
        )
      }
    >
      <Loaded of={warmUp}>{(known) => <Courses of={known} />}</Loaded>
      {stopping && (
        <ConfirmDialog
          title={words.stopTitle(source)}
          confirmLabel={words.stop}
          confirm={() => turn("stop")}
          done={() => {
            showToast(words.isStopped);
            warmUp.reload();
          }}
          onClose={() => setStopping(false)}
        >
          {words.stopHint}
        </ConfirmDialog>
      )}
    </Page>
  );
}

function Courses({ of: warmUp }: { readonly of: ShownWarmUp }) {
  const { warmUps: words } = texts().operator;
  const { courses, providers } = warmUp;
  return (
    <>
      <Facts
        facts={[
          { label: words.day, value: words.dayOf(warmUp.day, warmUp.days) },
          { label: words.started, value: words.atBy(formatTime(warmUp.started_at), warmUp.started_by) },
          { label: words.ends, value: formatTime(warmUp.ends_at) },
          { label: words.changedBy, value: warmUp.changed_by ?? "" },
        ]}
      />
      {courses.length === 0 && (
        <EmptyState icon="chart" title={words.nothingSent}>
          {words.nothingSentHint}
        </EmptyState>
      )}
      {courses.map(({ provider, days }) => {
        const today = providers.find((one) => one.provider === provider);
        return (
          <Section key={provider} title={provider} {...(today === undefined ? {} : { hint: <Today of={today} /> })}>
            <Chart
              label={words.drawing(provider)}
              times={days.map(({ at }) => new Date(at).getTime() / 1_000)}
              series={[
                { label: words.planned, colour: "--ink-soft", values: days.map(({ planned }) => planned) },
                { label: words.sent, colour: "--accent", values: days.map(({ sent }) => sent) },
                { label: words.deferred, colour: "--warn", values: days.map(({ deferred }) => deferred) },
              ]}
            />
          </Section>
        );
      })}
    </>
  );
}

function Today({ of: today }: { readonly of: Progress }) {
  const { warmUps: words } = texts().operator;
  const { day, sent, planned, deferred, complaints, paused_for, paused_until } = today;
  const shown = {
    ...{ day: formatNumber(day), sent: formatNumber(sent), planned: formatNumber(planned) },
    ...{ deferred: formatNumber(deferred), complaints: formatNumber(complaints) },
  };
  return (
    <>
      {words.today(shown)}{" "}
      {paused_for !== null && <strong>{words.pausedFor[paused_for](formatTime(paused_until))}</strong>}
    </>
  );
}
