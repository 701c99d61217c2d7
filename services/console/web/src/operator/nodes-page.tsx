import { Badge } from "../components/badge.tsx";
import { ListPage } from "../components/list-page.tsx";
import { useRows } from "../fetched.ts";
import { formatAge, formatNumber } from "../format.ts";
import { texts } from "../texts.ts";

interface Node {
  readonly node: string;
  readonly services: readonly { readonly name: string; readonly ready: boolean }[];
  /** Since its zones were known to be the database's; null of a node that serves none. */
  readonly lag_ms: number | null;
  readonly version: string;
  readonly seen: string;
}

const REFRESH_MS = 5_000;
/** A node asks the database every second: this many seconds without an answer are worth a look. */
const LAG_WORTH_A_LOOK_MS = 5_000;

/** The machines of the deployment. */
export function NodesPage() {
  const { nodes: words } = texts().operator;
  return (
    <ListPage<Node>
      words={words}
      icon="node"
      list={useRows<Node>("/nodes", "nodes", REFRESH_MS)}
      rowName={({ node }) => node}
      columns={[
        { id: "node", label: words.node, cell: ({ node }) => <span class="mono">{node}</span> },
        { id: "services", label: words.services, cell: ({ services }) => <Services of={services} />, grows: true },
        {
          id: "lag",
          label: words.lag,
          align: "end",
          cell: ({ lag_ms }) =>
            lag_ms === null ? (
              "–"
            ) : (
              <Badge tone={lag_ms > LAG_WORTH_A_LOOK_MS ? "warn" : "good"}>
                {words.milliseconds(formatNumber(lag_ms))}
              </Badge>
            ),
        },
        { id: "version", label: words.version, cell: ({ version }) => version, optional: true },
        { id: "seen", label: words.seen, cell: ({ seen }) => formatAge(seen), optional: true },
      ]}
    />
  );
}

/** Those that are not ready stand out. */
function Services({ of }: { readonly of: Node["services"] }) {
  return (
    <span class="row">
      {of.map(({ name, ready }) => (
        <Badge key={name} tone={ready ? "quiet" : "bad"}>
          {name}
        </Badge>
      ))}
    </span>
  );
}
