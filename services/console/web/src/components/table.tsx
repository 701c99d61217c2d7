import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../http.ts";
import { texts } from "../texts.ts";
import { Button } from "./button.tsx";
import { ProblemNote } from "./problem.tsx";

export interface Column<Row> {
  readonly id: string;
  /** Empty for a column of buttons, which then needs no heading. */
  readonly label: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly align?: "end";
  /** Left out where there is no room: on phones. */
  readonly optional?: boolean;
  /** Takes the room that the others leave, and ends with an ellipsis. */
  readonly grows?: boolean;
}

interface TableProps<Row> {
  /** What the table holds, for those who cannot see where it stands. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string | number;
  readonly rowClass?: (row: Row) => string | undefined;
  /** Shown in place of a table without rows. */
  readonly empty: ComponentChildren;
  readonly loading?: boolean;
  readonly problem?: Problem | undefined;
  readonly reload?: () => void;
  /** Reads more rows when the reader comes near the end. */
  readonly loadMore?: (() => void) | undefined;
}

/** Above this many rows only those in sight are drawn. */
const DRAW_ALL_UP_TO = 200;
/** As the style sheet has it for the rows of a long table (`--row-height`). */
const ROW_HEIGHT_PX = 38;
const ROWS_BEYOND_SIGHT = 20;

/** A table of any length. */
export function Table<Row>(props: TableProps<Row>) {
  const { rows, loading, problem, reload, loadMore, empty } = props;
  if (rows.length === 0) {
    if (problem) return <ProblemNote problem={problem} {...(reload ? { retry: reload } : {})} />;
    return loading ? <Skeleton /> : empty;
  }
  return (
    <>
      <ProblemNote problem={problem} {...(reload ? { retry: reload } : {})} />
      <Rows {...props} />
      {loadMore && <More loadMore={loadMore} busy={loading === true} failed={problem !== undefined} />}
    </>
  );
}

function Rows<Row>({ label, columns, rows, rowKey, rowClass }: TableProps<Row>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const isLong = rows.length > DRAW_ALL_UP_TO;
  const [from, to] = useRowsInSight(body, rows.length, isLong);
  useRoomForButtons(body, isLong);
  return (
    <TableFrame label={label}>
      <table class={isLong ? "table long" : "table"} aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" class={classOf(column)}>
                {column.label || <span class="visually-hidden">{texts().shell.actions}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {from > 0 && <Spacer rows={from} columns={columns.length} />}
          {rows.slice(from, to).map((row, index) => (
            <tr key={rowKey(row)} class={rowClass?.(row)} aria-rowindex={from + index + 2}>
              {columns.map((column) => (
                <td key={column.id} class={classOf(column)} data-label={column.label}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {to < rows.length && <Spacer rows={rows.length - to} columns={columns.length} />}
        </tbody>
      </table>
    </TableFrame>
  );
}

interface TableFrameProps {
  readonly label: string;
  readonly children: ComponentChildren;
}

/** What a table scrolls in where it is larger than its place; then the keyboard reaches it. */
export function TableFrame({ label, children }: TableFrameProps) {
  const element = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const frame = element.current;
    if (!frame) return;
    const observer = new ResizeObserver(() =>
      setScrolls(frame.scrollWidth > frame.clientWidth || frame.scrollHeight > frame.clientHeight),
    );
    for (const part of [frame, ...frame.children]) observer.observe(part);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={element} class="table-frame" {...(scrolls ? { tabIndex: 0, role: "region", "aria-label": label } : {})}>
      {children}
    </div>
  );
}

/** The rows worth drawing: those in sight and some beyond, in steps, so that most scrolling draws nothing anew. */
function useRowsInSight(body: { readonly current: HTMLElement | null }, count: number, isLong: boolean) {
  const [range, setRange] = useState<readonly [number, number]>([0, DRAW_ALL_UP_TO]);
  useEffect(() => {
    if (!isLong) return;
    const measure = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const firstInSight = Math.floor(-top / ROW_HEIGHT_PX / ROWS_BEYOND_SIGHT) * ROWS_BEYOND_SIGHT;
      const from = Math.max(0, Math.min(firstInSight - ROWS_BEYOND_SIGHT, count - ROWS_BEYOND_SIGHT));
      const to = from + Math.ceil(innerHeight / ROW_HEIGHT_PX) + 3 * ROWS_BEYOND_SIGHT;
      setRange((before) => (before[0] === from && before[1] === to ? before : [from, to]));
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [body, count, isLong]);
  return isLong ? ([range[0], Math.min(range[1], count)] as const) : ([0, count] as const);
}

/** The columns of a long table share its width whatever they hold; the one of the buttons gets what they need. */
function useRoomForButtons(body: { readonly current: HTMLTableSectionElement | null }, isLong: boolean): void {
  useEffect(() => {
    const cells = [...(body.current?.querySelectorAll<HTMLTableCellElement>('td[data-label=""]') ?? [])];
    const head = body.current?.closest("table")?.tHead?.rows[0]?.cells[cells[0]?.cellIndex ?? -1];
    if (head) head.style.width = isLong ? `${Math.max(...cells.map(({ scrollWidth }) => scrollWidth))}px` : "";
  }, [body, isLong]);
}

function Spacer({ rows, columns }: { readonly rows: number; readonly columns: number }) {
  return (
    <tr class="spacer" style={{ height: `${rows * ROW_HEIGHT_PX}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}

interface MoreProps {
  readonly loadMore: () => void;
  readonly busy: boolean;
  /** Whether the last attempt failed. */
  readonly failed: boolean;
}

/** A button that presses itself when it comes into sight; once that failed, the reader presses it. */
function More({ loadMore, busy, failed }: MoreProps) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (busy || failed || !element.current) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && loadMore());
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [loadMore, busy, failed]);
  return (
    <div ref={element} class="more">
      <Button busy={busy} onClick={loadMore}>
        {texts().shell.loadMore}
      </Button>
    </div>
  );
}

/** Stands where something is about to be. */
export function Skeleton() {
  return (
    <div class="skeleton" role="status" aria-label={texts().shell.loading}>
      <span />
      <span />
      <span />
    </div>
  );
}

function classOf({ align, optional, grows }: Column<never>): string | undefined {
  return [align, optional && "optional", grows && "grows"].filter(Boolean).join(" ") || undefined;
}
