import { useCallback, useEffect, useState } from "preact/hooks";
import { type Problem, request } from "./http.ts";

/** What a page asked the server for. */
export interface Fetched<T> {
  /** The newest answer; it stays while the next one is under way. */
  readonly value: T | undefined;
  /** Why the last attempt failed. */
  readonly problem: Problem | undefined;
  readonly loading: boolean;
  /** Asks again. */
  readonly reload: () => void;
}

/**
 * Reads a path and keeps it read: anew when the path changes, on `reload`, and while the page is visible after each pause.
 * @param path below `/admin/v1`; undefined: nothing to read yet
 * @param pause milliseconds from an answer to the next request, or what they are for the newest answer: undefined when that
 * will not change any more
 */
export function useFetched<T>(
  path: string | undefined,
  pause?: number | ((newest: T | undefined) => number | undefined),
): Fetched<T> {
  const [state, setState] = useState<{ path?: string | undefined; value?: T; problem?: Problem; loading: boolean }>({
    loading: path !== undefined,
  });
  const [attempt, setAttempt] = useState(0);
  const reload = useCallback(() => setAttempt((made) => made + 1), []);

  // Another attempt repeats the same request.
  useEffect(() => {
    if (path === undefined) return setState({ loading: false });
    const abort = new AbortController();
    setState((before) => (before.path === path ? { ...before, loading: true } : { path, loading: true }));
    request<T>("GET", path, { signal: abort.signal }).then(
      (answer) => {
        if (answer.ok) setState({ path, value: answer.value, loading: false });
        else setState(({ problem: _old, ...before }) => ({ ...before, path, problem: answer.error, loading: false }));
      },
      () => {}, // aborted: another path is under way, or nobody is there to see it
    );
    return () => abort.abort();
  }, [path, attempt]);

  const current = state.path === path ? state : undefined;
  const loading = current?.loading ?? path !== undefined;
  const pauseMs = typeof pause === "function" ? pause(current?.value) : pause;
  useEvery(path === undefined || loading ? undefined : pauseMs, reload);
  return { value: current?.value, problem: current?.problem, loading, reload };
}

/** A list, as far as it was read. */
export interface Rows<Row> {
  readonly rows: readonly Row[];
  readonly problem: Problem | undefined;
  readonly loading: boolean;
  /** Starts over. */
  readonly reload: () => void;
}

/** Reads a list that the server gives at once, as the member `name` of the body; see {@link useFetched}. */
export function useRows<Row>(path: string, name: string, pauseMs?: number): Rows<Row> {
  const { value, problem, loading, reload } = useFetched<Readonly<Record<string, readonly Row[]>>>(path, pauseMs);
  return { rows: value?.[name] ?? [], problem, loading, reload };
}

/** A list that the server gives in pages. */
export interface Pages<Row, Body> extends Rows<Row> {
  /** The page that was read last. */
  readonly newest: Body | undefined;
  /** Reads the next page; undefined when there is none. */
  readonly loadMore: (() => void) | undefined;
}

export interface PageSource<Row, Body> {
  /** The path of a page. @param after where the page before ended; undefined for the first */
  readonly path: (after: string | undefined) => string;
  readonly rows: (body: Body) => readonly Row[];
  /** Where the next page begins; undefined after the last. */
  readonly next: (body: Body) => string | undefined;
  /** Milliseconds from an answer until the list is read anew; undefined: it stays. */
  readonly pauseMs?: (rows: readonly Row[]) => number | undefined;
}

/**
 * Reads a list page by page.
 * @param key what makes this another list (its search, its filters): then it starts over, with none of the other's rows
 */
export function usePages<Row, Body>(key: string, source: PageSource<Row, Body>): Pages<Row, Body> {
  const [read, setRead] = useState<PagesRead<Row, Body>>(nothingRead(key));
  // A place is of the list that it was read in: another one begins at its beginning.
  const [position, setPosition] = useState<Place & { readonly attempt: number }>({ key, after: undefined, attempt: 0 });
  const after = position.key === key ? position.after : undefined;

  // The source is written anew at each drawing; the key says when it differs.
  useEffect(() => {
    const abort = new AbortController();
    setRead((before) => ({ ...(before.key === key ? before : nothingRead<Row, Body>(key)), loading: true }));
    request<Body>("GET", source.path(after), { signal: abort.signal }).then(
      (answer) => {
        if (!answer.ok) return setRead((before) => ({ ...before, problem: answer.error, loading: false }));
        const { value: newest } = answer;
        const page = source.rows(newest);
        const next = source.next(newest);
        setRead(({ rows: before }) => {
          const rows = after === undefined ? page : [...before, ...page];
          return { key, rows, newest, next, problem: undefined, loading: false };
        });
      },
      () => {},
    );
    return () => abort.abort();
  }, [key, after, position.attempt]);

  const { rows, newest, next, problem, loading } = read.key === key ? read : nothingRead<Row, Body>(key);
  const goTo = (place: string | undefined) =>
    setPosition(({ attempt }) => ({ key, after: place, attempt: attempt + 1 }));
  const loadMore = useCallback(() => goTo(next), [key, next]);
  const reload = useCallback(() => goTo(undefined), [key]);
  useEvery(loading ? undefined : source.pauseMs?.(rows), reload);
  return { rows, newest, problem, loading, loadMore: next === undefined ? undefined : loadMore, reload };
}

/** What was read of the list of a key. */
interface PagesRead<Row, Body> {
  readonly key: string;
  readonly rows: readonly Row[];
  readonly newest: Body | undefined;
  readonly next: string | undefined;
  readonly problem: Problem | undefined;
  readonly loading: boolean;
}

function nothingRead<Row, Body>(key: string): PagesRead<Row, Body> {
  return { key, rows: [], newest: undefined, next: undefined, problem: undefined, loading: true };
}

/** A place in a list. */
interface Place {
  readonly key: string;
  /** Where a page ended; undefined: the list's beginning. */
  readonly after: string | undefined;
}

/** Calls again and again while the page is visible, and at once when it becomes so. */
function useEvery(intervalMs: number | undefined, action: () => void): void {
  useEffect(() => {
    if (intervalMs === undefined) return;
    const act = () => {
      if (document.visibilityState === "visible") action();
    };
    const timer = setInterval(act, intervalMs);
    document.addEventListener("visibilitychange", act);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", act);
    };
  }, [intervalMs, action]);
}
