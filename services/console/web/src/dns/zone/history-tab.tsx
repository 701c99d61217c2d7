import { useState } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { Difference } from "../../components/difference.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { Skeleton } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { usePages } from "../../fetched.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { queryOf, request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { dnsApi, resellerApi } from "../paths.ts";
import { changeLines, describeChange, type HistoryEntry, sameAsNow } from "./history.ts";
import type { ZoneTabProps } from "./zone-tab.ts";

const PAGE_SIZE = 50;

/** A serial may have been set back: the time tells which entry is meant. */
function placeOf(last: HistoryEntry | undefined): string | undefined {
  return last && `${last.serial} ${last.timestamp}`;
}

function beforePlace(place: string | undefined): Readonly<Record<string, string | undefined>> {
  const [before, timestamp] = place?.split(" ") ?? [];
  return { before, before_timestamp: timestamp };
}

/** Who changed what and when, and the way back. */
export function HistoryTab({ reseller, soa, changed }: ZoneTabProps) {
  const { dns, shell } = texts();
  const words = dns.history;
  const [target, setTarget] = useState<number>();
  const { rows, loading, problem, loadMore, reload } = usePages<HistoryEntry, { history: HistoryEntry[] }>(soa.domain, {
    path: (place) =>
      dnsApi(reseller, "zone_history", soa.domain) + queryOf({ ...beforePlace(place), limit: PAGE_SIZE }),
    rows: ({ history }) => history,
    next: ({ history }) => placeOf(history.length < PAGE_SIZE ? undefined : history.at(-1)),
  });
  if (rows.length === 0 && loading) return <Skeleton />;
  const same = sameAsNow(rows);
  return (
    <>
      <ProblemNote problem={problem} retry={reload} />
      {rows.length === 0 && !problem && (
        <EmptyState icon="history" title={words.empty}>
          <p>{words.emptyHint}</p>
        </EmptyState>
      )}
      <ol class="history">
        {rows.map((entry) => (
          <li key={`${entry.serial} ${entry.timestamp}`}>
            <ChangeDetails entry={entry} />
            {same.has(entry.serial) ? (
              <Badge tone="quiet">{entry.serial === soa.serial ? words.current : words.same}</Badge>
            ) : (
              <Button small label={`${words.rollback}: ${entry.serial}`} onClick={() => setTarget(entry.serial)}>
                {words.rollback}
              </Button>
            )}
          </li>
        ))}
      </ol>
      {loadMore && (
        <div class="more">
          <Button busy={loading} onClick={loadMore}>
            {shell.loadMore}
          </Button>
        </div>
      )}
      {target !== undefined && (
        <RollbackDialog
          path={resellerApi(reseller, "zones", soa.domain, "rollback")}
          serial={target}
          done={() => {
            reload();
            changed();
          }}
          onClose={() => setTarget(undefined)}
        />
      )}
    </>
  );
}

function ChangeDetails({ entry }: { readonly entry: HistoryEntry }) {
  const { dns } = texts();
  const [added, deleted] = [formatNumber(entry.added.length), formatNumber(entry.deleted.length)];
  const figures = entry.added.length + entry.deleted.length > 0 ? [dns.difference.figures(added, deleted)] : [];
  const lines = (side: "deleted" | "added") => changeLines(entry, side, dns.history);
  return (
    <details>
      <summary>
        <span class="history-serial mono">{entry.serial}</span>
        <time dateTime={entry.timestamp}>{formatTime(entry.timestamp)}</time>
        <span>{dns.history.by(entry.actor)}</span>
        <span class="hint">{[...figures, ...describeChange(entry, dns.history)].join("; ")}</span>
      </summary>
      <Difference deleted={lines("deleted")} added={lines("added")} counted={false} />
    </details>
  );
}

interface RollbackDialogProps {
  readonly path: string;
  readonly serial: number;
  readonly done: () => void;
  readonly onClose: () => void;
}

function RollbackDialog({ path, serial, done, onClose }: RollbackDialogProps) {
  const words = texts().dns.history;
  return (
    <ConfirmDialog
      title={words.rollbackTitle(String(serial))}
      confirmLabel={words.rollback}
      danger={false}
      confirm={async () => {
        const answer = await request<{ serial: number }>("POST", path, { body: { serial } });
        if (answer.ok) showToast(words.rolledBack(String(answer.value.serial)));
        return answer;
      }}
      done={done}
      onClose={onClose}
    >
      <p>{words.rollbackHint}</p>
    </ConfirmDialog>
  );
}
