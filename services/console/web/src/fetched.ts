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
 * Reads a path and keeps it read: anew when the path changes, on `reload`, and every `everyMs` while the page is
 * visible.
 * @param path below `/admin/v1`; undefined: nothing to read yet
 * @param everyMs a pause, or what it is for the newest answer: undefined when that will not change any more
 */
export function useFetched<T>(
  path: string | undefined,
  everyMs?: number | ((newest: T | undefined) => number | undefined),
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
  const pauseMs = typeof everyMs === "function" ? everyMs(current?.value) : everyMs;
  useEvery(path === undefined ? undefined : pauseMs, reload);
  return { value: current?.value, problem: current?.problem, loading: current?.loading ?? path !== undefined, reload };
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
export function useRows<Row>(path: string, name: string, everyMs?: number): Rows<Row> {
  const { value, problem, loading, reload } = useFetched<Readonly<Record<string, readonly Row[]>>>(path, everyMs);
  return { rows: value?.[name] ?? [], problem, loading, reload };
}

/** A list that the server gives in pages. */
export interface Pages<Row> extends Rows<Row> {
  /** Reads the next page; undefined when there is none. */
  readonly loadMore: (() => void) | undefined;
}

export interface PageSource<Row, Body> {
  /** The path of a page. @param after where the page before ended; undefined for the first */
  readonly path: (after: string | undefined) => string;
  readonly rows: (body: Body) => readonly Row[];
  /** Where the next page begins; undefined after the last. */
  readonly next: (body: Body) => string | undefined;
}

/**
 * Reads a list page by page.
 * @param key what makes this another list (its search, its filters): then it starts over
 */
export function usePages<Row, Body>(key: string, source: PageSource<Row, Body>): Pages<Row> {
  const [rows, setRows] = useState<readonly Row[]>([]);
  // Places are of the list that they were read in: another one begins at its beginning.
  const [position, setPosition] = useState<Place & { readonly attempt: number }>({ key, after: undefined, attempt: 0 });
  const [end, setEnd] = useState<Place>({ key, after: undefined });
  const [problem, setProblem] = useState<Problem>();
  const [loading, setLoading] = useState(true);
  const after = position.key === key ? position.after : undefined;
  const next = end.key === key ? end.after : undefined;

  // The source is written anew at each drawing; the key says when it differs.
  useEffect(() => {
    const abort = new AbortController();
    setLoading(true);
    request<Body>("GET", source.path(after), { signal: abort.signal }).then(
      (answer) => {
        setLoading(false);
        setProblem(answer.ok ? undefined : answer.error);
        if (!answer.ok) return;
        const page = source.rows(answer.value);
        setRows((before) => (after === undefined ? page : [...before, ...page]));
        setEnd({ key, after: source.next(answer.value) });
      },
      () => {},
    );
    return () => abort.abort();
  }, [key, after, position.attempt]);

  const goTo = (place: string | undefined) =>
    setPosition(({ attempt }) => ({ key, after: place, attempt: attempt + 1 }));
  const loadMore = useCallback(() => goTo(next), [key, next]);
  const reload = useCallback(() => goTo(undefined), [key]);
  return { rows, problem, loading, loadMore: next === undefined ? undefined : loadMore, reload };
}

/** A place in a list. */
interface Place {
  readonly key: string;
  /** Where a page ended; undefined: the list's beginning, or its end. */
  readonly after: string | undefined;
}

/** Calls again and again while the page is visible, and at once when it becomes so. */
export function useEvery(intervalMs: number | undefined, action: () => void): void {
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
