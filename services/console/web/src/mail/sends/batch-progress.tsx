import { Loaded } from "../../components/loaded.tsx";
import { Progress } from "../../components/progress.tsx";
import { formatNumber } from "../../format.ts";
import { texts } from "../../texts.ts";
import { mailPage } from "../addresses.ts";
import { type BatchWithProgress, useBatch } from "./batch.ts";

/** How far a batch has come: a bar, and the figures behind it. */
export function BatchProgress({ instance, eeid }: { readonly instance: string; readonly eeid: string }) {
  const words = texts().mail.sends;
  const batch = useBatch(instance, eeid);
  return (
    <Loaded of={batch}>
      {(value) => (
        <section class="stack" aria-label={words.progress}>
          <div style={{ width: "100%" }}>
            <Progress label={words.done} done={value.destinatarios - value.en_cola} total={value.destinatarios} />
          </div>
          <Figures batch={value} />
          <a href={mailPage(instance, "sends", eeid)}>{words.open}</a>
        </section>
      )}
    </Loaded>
  );
}

/** Where the recipients of a batch stand. */
export function Figures({ batch }: { readonly batch: BatchWithProgress }) {
  const words = texts().mail.sends;
  const figures: readonly (readonly [string, number])[] = [
    [words.recipients, batch.destinatarios],
    [words.delivered, batch.entregados],
    [words.queued, batch.en_cola],
    [words.refused, batch.salidas_con_error],
    [words.hardBounces, batch.rebotes_hard],
    [words.cancelled, batch.cancelados],
  ];
  return (
    <dl class="figures">
      {figures.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{formatNumber(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
