import { readFileSync } from "node:fs";
import ipaddr from "ipaddr.js";
import { type CityResponse, Reader } from "mmdb-lib";

/** Where an address is; empty texts where that is not known. */
export interface Place {
  readonly countryCode: string;
  readonly regionCode: string;
  readonly city: string;
}

/** Where an address is, as far as a place database tells. */
export type FindPlace = (address: string) => Place | undefined;

/** Cities are named as the API's users name them, where the database can. */
const CITY_LANGUAGES = ["es", "en"] as const;

/**
 * Tells places by a MaxMind database file (GeoLite2 City, DB-IP City Lite and the like).
 * @param path null: no place is known
 * @throws when the file is missing or no such database
 */
export function openPlaces(path: string | null): FindPlace {
  if (path === null) return () => undefined;
  const reader = readDatabase(path);
  return (address) => {
    if (!ipaddr.isValid(address)) return undefined;
    // Databases know IPv4 addresses as such, not as a listener for both protocols shows them (::ffff:192.0.2.1).
    const found = reader.get(ipaddr.process(address).toString());
    if (!found?.country) return undefined;
    const names = found.city?.names;
    return {
      countryCode: found.country.iso_code,
      regionCode: found.subdivisions?.[0]?.iso_code ?? "",
      city: CITY_LANGUAGES.map((language) => names?.[language]).find((name) => name !== undefined) ?? "",
    };
  };
}

/** What is wrong with a place database, by its variable, once the file can be read; undefined: nothing. */
export function judgePlaceDatabase(path: string): string | undefined {
  try {
    readDatabase(path);
    return undefined;
  } catch {
    return `PALOMAR_PLACE_DATABASE: ${path} holds no place database (MMDB)`;
  }
}

function readDatabase(path: string): Reader<CityResponse> {
  return new Reader<CityResponse>(readFileSync(path));
}
