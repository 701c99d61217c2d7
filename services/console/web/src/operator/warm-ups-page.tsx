import { Badge, NameAndState } from "../components/badge.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber, formatTime } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { wholeNumber } from "../typed-number.ts";
import type { WarmUp } from "./warm-up.ts";

const REFRESH_MS = 10_000;

/** Source addresses that send by a plan, as they are new. */
export function WarmUpsPage() {
  const { warmUps: words } = texts().operator;
  const list = useRows<WarmUp>("/warm-ups", "warm_ups", REFRESH_MS);
  return (
    <ListPage<WarmUp>
      words={words}
      icon="chart"
      list={list}
      rowName={({ source }) => source}
      add={{ label: words.start, dialog: (close) => <StartDialog onStarted={list.reload} onClose={close} /> }}
      columns={[
        {
          id: "source",
          label: words.source,
          cell: (warmUp) => (
            <NameAndState
              name={
                <a class="mono" href={`/operator${pathOf("warm-ups", warmUp.source)}`}>
                  {warmUp.source}
                </a>
              }
              state={<WarmUpStates of={warmUp} />}
            />
          ),
        },
        {
          id: "day",
          label: words.day,
          align: "end",
          cell: ({ day, days, state }) => (state === "running" || state === "paused" ? words.dayOf(day, days) : ""),
        },
        {
          id: "sent",
          label: words.sentToday,
          align: "end",
          cell: ({ providers }) => formatNumber(providers.reduce((sum, { sent }) => sum + sent, 0)),
        },
        { id: "ends", label: words.ends, cell: ({ ends_at }) => formatTime(ends_at), optional: true },
      ]}
    />
  );
}

/** What it does, and whether it waits at a provider. */
export function WarmUpStates({ of: { state, providers } }: { readonly of: WarmUp }) {
  const { warmUps: words } = texts().operator;
  const waiting = state === "running" ? providers.filter(({ paused_for }) => paused_for !== null).length : 0;
  return (
    <>
      <Badge tone={state === "running" ? "good" : state === "paused" ? "warn" : "accent"}>{words.states[state]}</Badge>
      {waiting > 0 && <Badge tone="warn">{words.waitsAt(waiting)}</Badge>}
    </>
  );
}

function StartDialog({ onStarted, onClose }: { readonly onStarted: () => void; readonly onClose: () => void }) {
  const { warmUps: words } = texts().operator;
  const form = useForm(
    { source: "", day: "1" },
    ({ source, day }) =>
      request("POST", pathOf("warm-ups", source.trim(), "start"), { body: { day: wholeNumber(day) } }),
    (_reply, { source }) => {
      showToast(words.isStarted(source.trim()));
      onStarted();
      onClose();
    },
  );
  return (
    <FormDialog
      title={words.start}
      form={form}
      submitLabel={words.start}
      disabled={form.values.source.trim() === ""}
      onClose={onClose}
    >
      <TextField {...form.field("source")} label={words.source} hint={words.sourceHint} mono required autofocus />
      <TextField {...form.field("day")} label={words.firstDay} hint={words.firstDayHint} inputmode="numeric" />
    </FormDialog>
  );
}
