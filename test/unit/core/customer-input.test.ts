import { expect, test } from "vitest";
import { readTimeZone } from "../../../services/core/customer-input.ts";

test.each([
  ["UTC", "UTC"],
  ["america/lima", "America/Lima"],
  ["America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"],
  ["Asia/Kolkata", "Asia/Kolkata"],
  ["Europe/Nowhere", undefined],
  ["", undefined],
])("the time zone %j is %j", (given, name) => {
  const zone = readTimeZone(given);
  expect(zone.ok ? zone.value : undefined).toBe(name);
});
