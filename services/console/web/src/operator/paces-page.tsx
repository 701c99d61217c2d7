import { Badge, NameAndState } from "../components/badge.tsx";
import { ListPage } from "../components/list-page.tsx";
import { useRows } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { pathOf } from "../http.ts";
import { texts } from "../texts.ts";
import type { Pace } from "./pace.ts";

const REFRESH_MS = 5_000;

/** What is learnt or pinned, by source and provider. */
export function PacesPage() {
  const { paces: words } = texts().operator;
  const list = useRows<Pace>("/paces", "paces", REFRESH_MS);
  const shown = (value: number | null) => (value === null ? words.unlimited : formatNumber(value));
  return (
    <ListPage<Pace>
      words={words}
      icon="chart"
      list={list}
      rowName={({ source, provider }) => `${source} ${provider}`}
      columns={[
        {
          id: "provider",
          label: words.provider,
          cell: (pace) => (
            <NameAndState
              name={<a href={`/operator${pathOf("paces", pace.source, pace.provider)}`}>{pace.provider}</a>}
              state={<States of={pace} />}
            />
          ),
        },
        { id: "source", label: words.source, cell: ({ source }) => <span class="mono">{source}</span> },
        { id: "rate", label: words.rate, align: "end", cell: ({ rate }) => shown(rate) },
        {
          id: "tried",
          label: words.tried,
          align: "end",
          cell: ({ tried_rate }) => formatNumber(tried_rate),
          optional: true,
        },
        {
          id: "connections",
          label: words.connections,
          align: "end",
          cell: ({ connections }) => shown(connections),
          optional: true,
        },
      ]}
    />
  );
}

/** Whether it waits, and whether an operator has his hand on it. */
export function States({ of: { wait_seconds, pinned_by } }: { readonly of: Pace }) {
  const { paces: words } = texts().operator;
  return (
    <>
      {wait_seconds > 0 && <Badge tone="warn">{words.waits(wait_seconds)}</Badge>}
      {pinned_by !== null && <Badge tone="accent">{words.pinned}</Badge>}
    </>
  );
}
