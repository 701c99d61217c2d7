import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Where the focus was. */
interface Place {
  readonly element: Element;
  /** In a table, which changes row by row. */
  readonly cell?: { readonly table: HTMLTableElement; readonly row: number; readonly column: number };
}

const FOCUSABLE =
  "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled)";

/**
 * Keeps the focus on the page. What had it may go: a row that was deleted, a button whose work is done. The browser then
 * leaves it nowhere; here it goes to what took that place, else to the page.
 */
export function useKeptFocus(page: RefObject<HTMLElement>): void {
  useEffect(() => {
    const main = page.current;
    if (!main) return;
    let place: Place | undefined;
    const remember = ({ target }: FocusEvent) => {
      place = target instanceof Element && target !== main ? placeOf(target) : undefined;
    };
    // Whoever clicks beside everything has left it on purpose.
    const forget = () => {
      place = undefined;
    };
    const observer = new MutationObserver(() => {
      if (!place || document.activeElement !== document.body || !isGone(place.element)) return;
      const { cell } = place;
      place = undefined;
      ((cell && heirOf(cell)) ?? main).focus({ preventScroll: true });
    });
    observer.observe(main, { childList: true, subtree: true, attributeFilter: ["disabled"] });
    main.addEventListener("focusin", remember);
    addEventListener("pointerdown", forget);
    return () => {
      observer.disconnect();
      main.removeEventListener("focusin", remember);
      removeEventListener("pointerdown", forget);
    };
  }, [page]);
}

function placeOf(element: Element): Place {
  const cell = element.closest("td");
  const row = cell?.closest("tr");
  const table = row?.closest("table");
  return cell && row && table ? { element, cell: { table, row: row.rowIndex, column: cell.cellIndex } } : { element };
}

function isGone(element: Element): boolean {
  return !element.isConnected || element.matches(":disabled");
}

/** What can have the focus in the row that stands there now, best in the same column; the last row where the table ends before. */
function heirOf({ table, row, column }: NonNullable<Place["cell"]>): HTMLElement | undefined {
  if (!table.isConnected) return undefined;
  const heir = table.rows[Math.min(row, table.rows.length - 1)];
  return (
    (heir?.cells[column]?.querySelector<HTMLElement>(FOCUSABLE) ?? heir?.querySelector<HTMLElement>(FOCUSABLE)) ||
    undefined
  );
}
