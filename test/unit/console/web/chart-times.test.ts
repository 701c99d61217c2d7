import { expect, test } from "vitest";
import { axisLabel, type ChartTimes, tableLabel } from "../../../../services/console/web/src/components/chart-times.ts";

const seconds = (text: string) => new Date(text).getTime() / 1_000;
const times = (from: string, to: string, timeZone: string, areUtcDays = false): ChartTimes => ({
  ...{ locale: "en-GB", from: seconds(from), to: seconds(to), areUtcDays, timeZone },
});

test.each(["Europe/Madrid", "America/New_York"])("no two hours read alike where clocks go back: %s", (timeZone) => {
  const day = timeZone === "Europe/Madrid" ? "2026-10-25" : "2026-11-01";
  const night = times(`${day}T00:00:00Z`, `${day}T22:00:00Z`, timeZone);
  const hours = Array.from({ length: 23 }, (_, hour) => night.from + hour * 3_600);
  for (const label of [axisLabel(night), tableLabel(night)]) expect(new Set(hours.map(label)).size).toBe(23);
});

test("the hours of other days are without their zone", () => {
  const day = times("2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z", "Europe/Madrid");
  expect(axisLabel(day)(day.from)).toBe("01:00");
  expect(tableLabel(day)(day.from)).toBe("10 Mar 2026, 01:00:00");
});

test("days of UTC have their date of UTC, wherever they are read", () => {
  const days = times("2026-03-10T00:00:00Z", "2026-04-10T00:00:00Z", "America/Montevideo", true);
  expect([axisLabel(days)(days.from), tableLabel(days)(days.from)]).toEqual(["10 Mar", "10 Mar 2026"]);
});
