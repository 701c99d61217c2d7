import { useCallback, useState } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { EmptyState, NothingFound } from "../../components/empty-state.tsx";
import { SearchField } from "../../components/search-field.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { usePages, useRows } from "../../fetched.ts";
import { formatNumber } from "../../format.ts";
import { queryOf } from "../../http.ts";
import { keptDraft, useKeptDraft } from "../../kept-drafts.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { resellerApi } from "../paths.ts";
import {
  countChanges,
  type EditorRow,
  editorRows,
  NO_CHANGES,
  type PendingChanges,
  withChanged,
  withCreated,
  withDeleted,
  withUndone,
} from "../pending-changes.ts";
import { legibleValue, type StoredRecord } from "../record.ts";
import { RecordDialog } from "./record-dialog.tsx";
import { ReviewDialog } from "./review-dialog.tsx";
import type { ZoneTabProps } from "./zone-tab.ts";

interface RecordsBody {
  readonly records: readonly StoredRecord[];
  readonly next: string | null;
}

const PAGE_SIZE = 200;

/** The record editor: changes are gathered, looked at, and applied in one step. */
export function RecordsTab({ reseller, soa, changed }: ZoneTabProps) {
  const draftKey = `records ${reseller} ${soa.domain}`;
  const [changes, setChanges] = useState(keptDraft<PendingChanges>(draftKey) ?? NO_CHANGES);
  // undefined: closed; null: for a new record.
  const [editing, setEditing] = useState<EditorRow | null>();
  const [reviewing, setReviewing] = useState(false);
  const found = useZoneRecords(reseller, soa.domain);
  const pending = countChanges(changes);
  useKeptDraft(draftKey, pending > 0 ? changes : undefined);

  const applied = () => {
    setChanges(NO_CHANGES);
    found.reload();
    changed();
  };
  return (
    <>
      <RecordsTable found={found} changes={changes} setChanges={setChanges} edit={setEditing} />
      {pending > 0 && (
        <PendingBar count={pending} discard={() => setChanges(NO_CHANGES)} review={() => setReviewing(true)} />
      )}
      {editing !== undefined && (
        <RecordDialog
          reseller={reseller}
          domain={soa.domain}
          row={editing}
          after={(draft) => (editing ? withChanged(changes, editing, draft) : withCreated(changes, draft))}
          onStaged={setChanges}
          onClose={() => setEditing(undefined)}
        />
      )}
      {reviewing && (
        <ReviewDialog
          reseller={reseller}
          domain={soa.domain}
          changes={changes}
          onApplied={applied}
          onClose={() => setReviewing(false)}
        />
      )}
    </>
  );
}

/** The records that are searched for, and the types that there are. */
function useZoneRecords(reseller: string, domain: string) {
  const [{ search = "", type = "" }, changeQuery] = useQuery();
  const path = (...segments: string[]) => resellerApi(reseller, "zones", domain, ...segments);
  const types = useRows<RecordType>(path("record_types"), "types");
  const { rows: records, ...pages } = usePages<StoredRecord, RecordsBody>(
    JSON.stringify([`${reseller} ${domain}`, search, type]),
    {
      path: (after) => path("records") + queryOf({ search, type, after, limit: PAGE_SIZE }),
      rows: (body) => body.records,
      next: ({ next }) => next ?? undefined,
    },
  );
  const onSearch = useCallback((wanted: string) => changeQuery({ search: wanted }), [changeQuery]);
  const reload = () => {
    pages.reload();
    types.reload();
  };
  return {
    search,
    onSearch,
    type,
    chooseType: (wanted: string) => changeQuery({ type: wanted }),
    types,
    records,
    pages,
    reload,
  };
}

interface RecordsTableProps {
  readonly found: ReturnType<typeof useZoneRecords>;
  readonly changes: PendingChanges;
  readonly setChanges: (changes: PendingChanges) => void;
  /** Null: a new record. */
  readonly edit: (row: EditorRow | null) => void;
}

function RecordsTable({ found, changes, setChanges, edit }: RecordsTableProps) {
  const { dns } = texts();
  const { search, type, types, records, pages } = found;
  const add = (
    <Button kind="primary" icon="add" onClick={() => edit(null)}>
      {dns.record.add}
    </Button>
  );
  return (
    <>
      <div class="toolbar">
        <SearchField label={dns.record.search} value={search} onSearch={found.onSearch} />
        <TypeChoice types={types.rows} chosen={type} choose={found.chooseType} />
        {add}
      </div>
      <Table
        label={dns.records}
        rows={editorRows(records, changes)}
        rowKey={({ key }) => key}
        rowClass={({ state }) => state}
        {...pages}
        columns={columnsOf({
          edit,
          remove: (row) => setChanges(withDeleted(changes, row)),
          undo: (row) => setChanges(withUndone(changes, row)),
        })}
        empty={
          search !== "" || type !== "" ? (
            <NothingFound />
          ) : (
            <EmptyState icon="globe" title={dns.record.empty}>
              <p>{dns.record.emptyHint}</p>
              {add}
            </EmptyState>
          )
        }
      />
    </>
  );
}

interface PendingBarProps {
  readonly count: number;
  readonly discard: () => void;
  readonly review: () => void;
}

function PendingBar({ count, discard, review }: PendingBarProps) {
  const { pending: words } = texts().dns;
  return (
    <section class="pending-bar" aria-label={words.title}>
      <div>
        <strong>{words.count(formatNumber(count))}</strong>
        <p class="hint">{words.hint}</p>
      </div>
      <div class="row">
        <Button onClick={discard}>{words.discard}</Button>
        <Button kind="primary" onClick={review}>
          {words.review}
        </Button>
      </div>
    </section>
  );
}

interface RowActions {
  readonly edit: (row: EditorRow) => void;
  readonly remove: (row: EditorRow) => void;
  readonly undo: (row: EditorRow) => void;
}

function columnsOf(actions: RowActions): Column<EditorRow>[] {
  const { dns } = texts();
  return [
    {
      id: "name",
      label: dns.record.name,
      cell: ({ record }) => (
        <span class="mono" title={record.name}>
          {record.name}
        </span>
      ),
    },
    {
      id: "type",
      label: dns.record.type,
      cell: ({ record, state, stored }) => (
        <>
          <span class="record-type">{record.type}</span> <StateBadge state={state} />
          {stored?.derived && <Badge tone="quiet">{dns.followers.derived}</Badge>}
        </>
      ),
    },
    { id: "ttl", label: dns.record.ttl, align: "end", cell: ({ record }) => record.ttl ?? "", optional: true },
    {
      id: "value",
      label: dns.record.value,
      grows: true,
      cell: ({ record }) => (
        <span class="mono clamped">
          {record.rr_prio !== undefined && <span class="record-priority">{record.rr_prio} </span>}
          {legibleValue(record.value)}
        </span>
      ),
    },
    {
      id: "actions",
      label: "",
      align: "end",
      cell: (row) => !row.stored?.derived && <RowButtons row={row} {...actions} />,
    },
  ];
}

function RowButtons({ row, edit, remove, undo }: RowActions & { readonly row: EditorRow }) {
  const { dns, shell } = texts();
  const { name, type } = row.record;
  return (
    <span class="row-actions">
      {row.state !== "deleted" && (
        <Button small label={`${shell.edit}: ${name} ${type}`} onClick={() => edit(row)}>
          {shell.edit}
        </Button>
      )}
      {row.state === "stored" ? (
        <Button small label={`${shell.remove}: ${name} ${type}`} onClick={() => remove(row)}>
          {shell.remove}
        </Button>
      ) : (
        <Button small onClick={() => undo(row)}>
          {row.state === "deleted" ? dns.record.restore : dns.record.undo}
        </Button>
      )}
    </span>
  );
}

function StateBadge({ state }: { readonly state: EditorRow["state"] }) {
  const { record } = texts().dns;
  if (state === "created") return <Badge tone="good">{record.isNew}</Badge>;
  if (state === "modified") return <Badge tone="accent">{record.isChanged}</Badge>;
  return state === "deleted" ? <Badge tone="bad">{record.isDeleted}</Badge> : null;
}

interface RecordType {
  readonly type: string;
  readonly records: number;
}

interface TypeChoiceProps {
  readonly types: readonly RecordType[];
  /** Empty: all. */
  readonly chosen: string;
  readonly choose: (type: string) => void;
}

/** The types that the zone has, with how many records are of each. */
function TypeChoice({ types, chosen, choose }: TypeChoiceProps) {
  const { record } = texts().dns;
  const all = types.reduce((sum, { records }) => sum + records, 0);
  return (
    <select aria-label={record.type} value={chosen} onChange={({ currentTarget }) => choose(currentTarget.value)}>
      <option value="">{`${record.allTypes} (${formatNumber(all)})`}</option>
      {types.map(({ type, records }) => (
        <option key={type} value={type}>
          {`${type} (${formatNumber(records)})`}
        </option>
      ))}
    </select>
  );
}
