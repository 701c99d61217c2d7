/** Zones by their ids, or all from one id to another. */
export type ZoneSelection = { readonly ids: readonly number[] } | { readonly from: number; readonly to: number };

/** From so many zones on, all between the first and the last are asked for rather than those that are named. */
const MAX_NAMED_ZONES = 20_000;
/** As many as this, where no more than as many others lie between them. */
const MAX_NAMED_NEIGHBOURS = 100;

/**
 * How zones are asked for: between many there may be others, which are to be passed over.
 * @param ids ascending
 */
export function selectionOf(ids: readonly number[]): ZoneSelection {
  const [from, to] = [ids[0]!, ids.at(-1)!];
  const areNeighbours = ids.length > MAX_NAMED_NEIGHBOURS && to - from < 2 * ids.length;
  return areNeighbours || ids.length > MAX_NAMED_ZONES ? { from, to } : { ids };
}

/** The condition that a column with the id of a zone is of a selection; with the numbers in it, as COPY takes no parameters. */
export function isSelected(column: string, zones: ZoneSelection): string {
  return "ids" in zones
    ? `${column} = any ('{${zones.ids.map(Number).join(",")}}'::bigint[])`
    : `${column} between ${Number(zones.from)} and ${Number(zones.to)}`;
}
