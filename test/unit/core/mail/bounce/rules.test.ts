import { describe, expect, test } from "vitest";
import data from "../../../../../config/bounce-rules.json" with { type: "json" };
import { classifyBounce } from "../../../../../services/core/mail/bounce/class.ts";
import { DSN_ACTIONS } from "../../../../../services/core/mail/bounce/dsn.ts";
import { remoteWords } from "../../../../../services/core/mail/bounce/notice.ts";
import { BOUNCE_REASONS, type BounceReason } from "../../../../../services/core/mail/bounce/reason.ts";
import {
  bounceRules,
  comparable,
  reasonOfReplyCode,
  reasonOfStatus,
} from "../../../../../services/core/mail/bounce/rules.ts";
import { findEnhancedStatuses } from "../../../../../services/core/mail/enhanced-status.ts";

const reasons = new Set<string>(BOUNCE_REASONS);

describe.each(["wordings", "hints"] as const)("%s", (table) => {
  describe.each(data[table].rules.map((rule, index) => ({ ...rule, index })))("$index: $reason", (rule) => {
    test("the reason is one of the vocabulary", () => {
      expect(reasons).toContain(rule.reason);
    });

    test.each(rule.samples)("%s", (text) => {
      const command = "onlyAtRcpt" in rule ? "rcpt" : undefined;
      const status = findEnhancedStatuses(text)[0];
      expect(bounceRules[table][rule.index]?.pattern.test(comparable(text))).toBe(true);
      expect(classifyBounce({ text, status, command }).reason).toBe(rule.reason);
    });
  });
});

describe.each([
  "delays",
  "finalities",
  "senders",
  "subjects",
  "openings",
  "automaticSubjects",
  "automaticTexts",
  "challenges",
] as const)("%s", (table) => {
  test.each(data[table].samples)("%s", (sample) => {
    expect(bounceRules[table].test(comparable(sample))).toBe(true);
  });
});

test.each(data.returned.samples)("the returned message begins at: %s", (sample) => {
  expect(bounceRules.returned.test(sample)).toBe(true);
});

describe("recipients", () => {
  test.each(data.recipients.rules)("$system", ({ samples }) => {
    for (const sample of samples) {
      const first = bounceRules.recipients.find(({ pattern }) => sample.match(pattern));
      const found = [...sample.matchAll(first?.pattern ?? /(?!)/g)].map((match) => match[1]);
      expect(found).toEqual([expect.stringMatching(/^(?:user|jane)(?:@example\.org)?$/)]);
    }
  });
});

describe("diagnostics", () => {
  test.each(data.diagnostics.rules)("$system", ({ samples }) => {
    for (const sample of samples) expect(remoteWords(sample)).toMatch(/^(?:550|smtp)/);
  });
});

/** A run without bound costs the square of a hostile text, for each of its recipients. */
test("no pattern repeats a class of characters without bound", () => {
  const rules = [...data.wordings.rules, ...data.hints.rules, ...data.commands.rules, ...data.actions.rules];
  const words = [data.delays, data.finalities, data.senders, data.subjects, data.openings];
  const automatic = [data.automaticSubjects, data.automaticTexts, data.challenges];
  const patterns = [...rules, ...words, ...automatic].flatMap((rule) => rule.patterns);
  expect(patterns.filter((pattern) => /(?:\\[wsSd]|(?<!\\)[.\]])[*+]/.test(pattern))).toEqual([]);
});

test.each(data.actions.rules)("the action $action", ({ action, samples }) => {
  expect(DSN_ACTIONS).toContain(action);
  for (const sample of samples) {
    expect(bounceRules.actions.find(({ pattern }) => pattern.test(sample))?.action).toBe(action);
  }
});

test.each(data.commands.rules)("the command $command", ({ command, samples }) => {
  for (const sample of samples) {
    expect(bounceRules.commands.find(({ pattern }) => pattern.test(comparable(sample)))?.command).toBe(command);
  }
});

describe("codes", () => {
  test.each(Object.entries(data.statuses.reasons))("status %s is %s", (codes, reason) => {
    expect(reasons).toContain(reason);
    for (const code of codes.split("-")) expect(reasonOfStatus(code as "5.1.1")).toBe(reason as BounceReason);
  });

  test.each(Object.entries(data.replycodes.reasons))("reply code %s is %s", (codes, reason) => {
    expect(reasons).toContain(reason);
    for (const code of codes.split("-")) expect(reasonOfReplyCode(Number(code))).toBe(reason as BounceReason);
  });

  test("a range holds what lies between its ends, and nothing else", () => {
    expect(reasonOfStatus("5.7.610")).toBe("blocked");
    expect(reasonOfStatus("5.7.650")).toBeUndefined();
    expect(reasonOfStatus("5.1.17")).toBe("userunknown");
    expect(reasonOfReplyCode(511)).toBe("userunknown");
    expect(reasonOfReplyCode(555)).toBeUndefined();
  });
});
