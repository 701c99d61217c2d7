import { readFileSync } from "node:fs";
import { type CityResponse, Reader } from "mmdb-lib";
import type { FindPlace } from "./visitor.ts";

/** Cities are named as the API's users name them, where the database can. */
const CITY_LANGUAGES = ["es", "en"] as const;

/**
 * Tells places by a MaxMind database file (GeoLite2 City, DB-IP City Lite and the like).
 * @param path null: no place is known
 * @throws when the file is missing or no such database
 */
export function openPlaces(path: string | null): FindPlace {
  if (path === null) return () => undefined;
  const reader = new Reader<CityResponse>(readFileSync(path));
  return (address) => {
    const found = reader.get(address);
    if (!found?.country) return undefined;
    const names = found.city?.names;
    return {
      countryCode: found.country.iso_code,
      regionCode: found.subdivisions?.[0]?.iso_code ?? "",
      city: CITY_LANGUAGES.map((language) => names?.[language]).find((name) => name !== undefined) ?? "",
    };
  };
}
