import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Button } from "../components/button.tsx";
import { Chart } from "../components/chart.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { Facts } from "../components/facts.tsx";
import { TextField } from "../components/field.tsx";
import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { wholeNumber } from "../typed-number.ts";
import type { CountedPace } from "./pace.ts";
import { States } from "./paces-page.tsx";

const REFRESH_MS = 10_000;
/** A count is of five minutes. */
const COUNTS_AN_HOUR = 12;

interface Key {
  readonly source: string;
  readonly provider: string;
}

/** One source at one provider: what is allowed, tried and put off, and the operator's hand on it. */
export function PacePage({ source, provider }: Key) {
  const { paces: words } = texts().operator;
  const path = pathOf("paces", source, provider);
  const pace = useFetched<CountedPace>(path, REFRESH_MS);
  const [pinning, setPinning] = useState(false);
  const act = useAction(
    (verb: "unpin" | "reset") => request("POST", `${path}/${verb}`),
    (_reply, verb) => {
      showToast(verb === "unpin" ? words.isUnpinned : words.isReset);
      pace.reload();
    },
  );
  const { value } = pace;
  return (
    <Page
      title={`${provider}, ${source}`}
      crumbs={[{ label: words.title, href: "/operator/paces" }]}
      badges={value && <States of={value} />}
      actions={
        <>
          <Button onClick={() => setPinning(true)}>{words.pin}</Button>
          {value?.pinned_by != null && (
            <Button busy={act.busy} onClick={() => void act.run("unpin")}>
              {words.unpin}
            </Button>
          )}
          <Button busy={act.busy} onClick={() => void act.run("reset")}>
            {words.reset}
          </Button>
        </>
      }
    >
      <Loaded of={pace}>{(known) => <Figures of={known} />}</Loaded>
      {pinning && value && <PinDialog of={value} onPinned={pace.reload} onClose={() => setPinning(false)} />}
    </Page>
  );
}

function Figures({ of: pace }: { readonly of: CountedPace }) {
  const { paces: words } = texts().operator;
  const shown = (value: number | null) => (value === null ? words.unlimited : formatNumber(value));
  const { counts } = pace;
  return (
    <>
      <Facts
        facts={[
          { label: words.rate, value: shown(pace.rate) },
          { label: words.connections, value: shown(pace.connections) },
          { label: words.messages, value: shown(pace.messages_per_connection) },
          ...(pace.refused_rate === null ? [] : [{ label: words.refused, value: formatNumber(pace.refused_rate) }]),
          ...(pace.pinned_by === null ? [] : [{ label: words.pinnedBy, value: pace.pinned_by }]),
        ]}
      />
      <Section title={words.drawing}>
        <Chart
          label={words.drawing}
          times={counts.map(({ at }) => new Date(at).getTime() / 1_000)}
          series={[
            { label: words.allowed, colour: "--ink-soft", values: counts.map(({ allowed }) => allowed) },
            { label: words.tried, colour: "--accent", values: counts.map(({ tried }) => tried * COUNTS_AN_HOUR) },
            {
              label: words.deferred,
              colour: "--warn",
              values: counts.map(({ deferred }) => deferred * COUNTS_AN_HOUR),
            },
          ]}
        />
      </Section>
    </>
  );
}

interface PinDialogProps {
  readonly of: CountedPace;
  readonly onPinned: () => void;
  readonly onClose: () => void;
}

function PinDialog({ of: { source, provider, pinned }, onPinned, onClose }: PinDialogProps) {
  const { paces: words } = texts().operator;
  const typed = (value: number | null) => (value === null ? "" : String(value));
  const form = useForm(
    {
      rate: typed(pinned.rate),
      connections: typed(pinned.connections),
      messages_per_connection: typed(pinned.messages_per_connection),
    },
    (values) => {
      const limits = Object.entries(values).map(([name, text]) => [
        name,
        text.trim() === "" ? null : wholeNumber(text),
      ]);
      return request("POST", `${pathOf("paces", source, provider)}/pin`, { body: Object.fromEntries(limits) });
    },
    () => {
      showToast(words.isPinned);
      onPinned();
      onClose();
    },
  );
  return (
    <FormDialog title={words.pin} form={form} submitLabel={words.pin} onClose={onClose}>
      <TextField {...form.field("rate")} label={words.rate} hint={words.pinHint} inputmode="numeric" autofocus />
      <TextField {...form.field("connections")} label={words.connections} inputmode="numeric" />
      <TextField {...form.field("messages_per_connection")} label={words.messages} inputmode="numeric" />
    </FormDialog>
  );
}
