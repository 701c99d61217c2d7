import { expect, test } from "vitest";
import { parseDateOrMoment, parseMoment } from "../../../services/core/moment.ts";

test.each([
  ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00.000Z"],
  ["2030-01-31t12:00z", "2030-01-31T12:00:00.000Z"],
  ["2030-01-31T12:00:00.25+02:00", "2030-01-31T10:00:00.250Z"],
  ["2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"],
  ["2030-02-30T00:00:00Z", undefined],
  ["2030-02-29T00:00:00Z", undefined],
  ["2030-04-31T00:00:00+01:00", undefined],
  ["2030-13-01T00:00:00Z", undefined],
  ["2030-01-31T24:00:00Z", undefined],
  ["2030-01-31T12:60:00Z", undefined],
  ["2030-01-31T12:00:00+24:00", undefined],
  ["9999-12-31T23:59:59-23:59", undefined],
  ["0000-01-01T00:00:00+01:00", undefined],
  ["2030-01-31T12:00:00", undefined],
  ["2030-01-31 12:00:00Z", undefined],
  ["2030-01-31", undefined],
  ["tomorrow", undefined],
  ["", undefined],
])("the moment %j is %j", (text, moment) => expect(parseMoment(text)?.toISOString()).toBe(moment));

test.each([
  ["2030-01-31", "2030-01-31T00:00:00.000Z"],
  ["2030-01-31 12:00:01", "2030-01-31T12:00:01.000Z"],
  ["2030-01-31T12:00:00-01:00", "2030-01-31T13:00:00.000Z"],
  ["2030-02-30", undefined],
  ["2030-1-31", undefined],
  ["yesterday", undefined],
])("the date or moment %j is %j", (text, moment) => expect(parseDateOrMoment(text)?.toISOString()).toBe(moment));
