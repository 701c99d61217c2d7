import { useCallback } from "preact/hooks";
import { Badge } from "../components/badge.tsx";
import { ListPage } from "../components/list-page.tsx";
import { usePages } from "../fetched.ts";
import { formatTime } from "../format.ts";
import { queryOf } from "../http.ts";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { describeDetail } from "./audit-detail.ts";

interface AuditEntry {
  readonly id: number;
  readonly timestamp: string;
  readonly actor: string;
  readonly address: string;
  readonly action: string;
  readonly object: string;
  readonly detail: Readonly<Record<string, unknown>>;
  /** begun: how it ended is not known. */
  readonly outcome: "begun" | "done";
}

type Words = Readonly<Record<string, string>>;

const PAGE_SIZE = 100;

/** Who changed what, when, and from where. */
export function AuditPage() {
  const { audit: words } = texts().operator;
  const [{ actor = "" }, changeQuery] = useQuery();
  const wanted = actor.trim();
  const pages = usePages<AuditEntry, { audit: AuditEntry[] }>(wanted, {
    path: (before) => `/audit${queryOf({ actor: wanted, before, limit: PAGE_SIZE })}`,
    rows: ({ audit }) => audit,
    next: ({ audit }) => (audit.length < PAGE_SIZE ? undefined : String(audit.at(-1)?.id)),
  });
  const onSearch = useCallback((text: string) => changeQuery({ actor: text }), [changeQuery]);
  return (
    <ListPage<AuditEntry>
      words={words}
      icon="audit"
      list={pages}
      rowName={({ id }) => String(id)}
      search={{ label: words.anyActor, value: actor, onSearch }}
      columns={[
        { id: "time", label: words.time, cell: ({ timestamp }) => formatTime(timestamp) },
        { id: "actor", label: words.actor, cell: (entry) => entry.actor },
        {
          id: "address",
          label: words.address,
          cell: ({ address }) => <span class="mono">{address}</span>,
          optional: true,
        },
        {
          id: "action",
          label: words.action,
          cell: ({ action, outcome }) => (
            <>
              <span title={action}>{deedIn(action)}</span>{" "}
              {outcome === "begun" && <Badge tone="warn">{words.begun}</Badge>}
            </>
          ),
        },
        { id: "object", label: words.object, cell: ({ object }) => <span class="mono">{object}</span>, grows: true },
        {
          id: "detail",
          label: words.detail,
          cell: ({ detail }) => <span class="mono hint">{describeDetail(detail)}</span>,
          grows: true,
        },
      ]}
    />
  );
}

/** `user.add` in words; what these pages do not know yet by its own name. */
function deedIn(action: string): string {
  const { audit } = texts().operator;
  const [things, deeds]: readonly [Words, Words] = [audit.things, audit.deeds];
  const [thing = "", deed = ""] = action.split(".", 2);
  return [things[thing] ?? thing, deeds[deed] ?? deed].filter(Boolean).join(": ");
}
