import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openPlaces } from "../../../services/platform/lookups/places.ts";
import { writeMmdb } from "../../support/mmdb.ts";

const folder = mkdtempSync(join(tmpdir(), "palomar-places-"));
afterAll(() => rmSync(folder, { recursive: true }));

const path = join(folder, "city.mmdb");
writeFileSync(
  path,
  writeMmdb({
    "192.0.2.0/24": {
      city: { names: { en: "Seville", es: "Sevilla" } },
      country: { iso_code: "ES", names: { en: "Spain" } },
      subdivisions: [{ iso_code: "AN" }, { iso_code: "SE" }],
    },
    "198.51.100.128/25": { city: { names: { en: "Montevideo" } }, country: { iso_code: "UY" } },
    "203.0.113.0/24": { country: { iso_code: "AR" } },
    "2001:db8:1::/48": { city: { names: { de: "Wien" } }, country: { iso_code: "AT" } },
    "2001:db8:2::/48": { continent: { code: "EU" } },
  }),
);
const findPlace = openPlaces(path);

test.each([
  ["192.0.2.77", { countryCode: "ES", regionCode: "AN", city: "Sevilla" }],
  ["198.51.100.200", { countryCode: "UY", regionCode: "", city: "Montevideo" }],
  ["198.51.100.1", undefined],
  ["203.0.113.9", { countryCode: "AR", regionCode: "", city: "" }],
  ["2001:db8:1::5", { countryCode: "AT", regionCode: "", city: "" }],
  ["2001:db8:2::5", undefined],
  ["2001:db8:3::5", undefined],
  ["::ffff:192.0.2.77", { countryCode: "ES", regionCode: "AN", city: "Sevilla" }],
  ["not an address", undefined],
  ["", undefined],
])("%s is in %j", (address, place) => {
  expect(findPlace(address)).toEqual(place);
});

test("without a database no place is known; a wrong file ends the start", () => {
  expect(openPlaces(null)("192.0.2.77")).toBeUndefined();
  expect(() => openPlaces(join(folder, "missing.mmdb"))).toThrow("ENOENT");
  const wrong = join(folder, "wrong.mmdb");
  writeFileSync(wrong, "no such database");
  expect(() => openPlaces(wrong)).toThrow();
});
