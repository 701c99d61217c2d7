import { describe, expect, test } from "vitest";
import {
  findEnhancedStatuses,
  isSpecific,
  parseEnhancedStatus,
  statusClass,
} from "../../../../services/core/mail/enhanced-status.ts";

describe("a Status field", () => {
  test.each([
    ["5.1.1", "5.1.1"],
    [" 4.4.7 (delivery time expired)", "4.4.7"],
    ["5 .1 .1", "5.1.1"],
    ["5.7.606", "5.7.606"],
    ["5.01.010", "5.1.10"],
    ["2.0.0", "2.0.0"],
  ])("%j is %s", (text, status) => {
    expect(parseEnhancedStatus(text)).toBe(status);
  });

  test.each(["", "unknown", "3.1.1", "5.1", "5.1.1.1", "5.1234.1", "550 5.1.1"])("%j is none", (text) => {
    expect(parseEnhancedStatus(text)).toBeUndefined();
  });
});

describe("codes in running text", () => {
  test.each([
    ["550 5.1.1 no such user", ["5.1.1"]],
    ["sorry (#5.7.1)", ["5.7.1"]],
    ["550-5.7.26 first 550 5.7.26 second", ["5.7.26", "5.7.26"]],
    ["ERROR_CODE :5.1.1 <a@example.org>", ["5.1.1"]],
    ["host mx.example.org[4.3.2.1] said", []],
    ["from 192.0.2.55 and 5.9.147.154", []],
    ["version 4.5.2-1 of Exim4.9.0", []],
    ["nothing", []],
  ])("%j holds %j", (text, statuses) => {
    expect(findEnhancedStatuses(text)).toEqual(statuses);
  });
});

test("X.0.0 only repeats the class", () => {
  expect(isSpecific("5.0.0")).toBe(false);
  expect(isSpecific("5.0.1")).toBe(true);
  expect(isSpecific("4.2.2")).toBe(true);
});

test("the class is the first digit", () => {
  expect(statusClass("4.2.2")).toBe(4);
});
