import { useCallback } from "preact/hooks";
import { useLocation } from "preact-iso";
import { queryOf } from "./http.ts";

export type Query = Readonly<Record<string, string>>;

/**
 * What a page shows, kept in its address: a search or a filter can be linked to and comes back with the page.
 * @returns the query's values, and a function that changes some of them in place (undefined removes one)
 */
export function useQuery(): readonly [Query, (changes: Readonly<Record<string, string | undefined>>) => void] {
  const { path, query, route } = useLocation();
  const change = useCallback(
    (changes: Readonly<Record<string, string | undefined>>) => route(path + queryOf({ ...query, ...changes }), true),
    [path, query, route],
  );
  return [query, change];
}
