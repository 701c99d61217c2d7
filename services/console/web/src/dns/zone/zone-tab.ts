import type { Soa } from "../record.ts";

/** What every part of the zone's page is handed. */
export interface ZoneTabProps {
  readonly reseller: string;
  readonly soa: Soa;
  /** Reads the SOA again: the zone was changed. */
  readonly changed: () => void;
}
