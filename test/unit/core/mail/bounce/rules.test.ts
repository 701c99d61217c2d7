import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import codes from "../../../../../config/bounces/codes.json" with { type: "json" };
import layouts from "../../../../../config/bounces/layouts.json" with { type: "json" };
import words from "../../../../../config/bounces/wordings.json" with { type: "json" };
import { classifyBounce } from "../../../../../services/core/mail/bounce/class.ts";
import { DSN_ACTIONS } from "../../../../../services/core/mail/bounce/dsn.ts";
import { remoteWords } from "../../../../../services/core/mail/bounce/notice.ts";
import { BOUNCE_REASONS, type BounceReason } from "../../../../../services/core/mail/bounce/reason.ts";
import {
  bounceRules,
  comparable,
  readSystemPhrases,
  reasonOfReplyCode,
  reasonOfStatus,
  reasonOfSubject,
  withAsciiQuotes,
} from "../../../../../services/core/mail/bounce/rules.ts";
import { findEnhancedStatuses } from "../../../../../services/core/mail/enhanced-status.ts";
import { packageFolder } from "../../../../../services/platform/package-folder.ts";

const reasons = new Set<string>(BOUNCE_REASONS);

describe.each(["wordings", "exits", "hints"] as const)("%s", (table) => {
  describe.each(words[table].rules.map((rule, index) => ({ ...rule, index })))("$index: $reason", (rule) => {
    test("the reason is one of the vocabulary", () => {
      expect(reasons).toContain(rule.reason);
    });

    test.each(rule.samples)("%s", (text) => {
      const command = "onlyAtRcpt" in rule && !("orUntold" in rule) ? "rcpt" : undefined;
      const status = findEnhancedStatuses(text)[0];
      expect(bounceRules()[table][rule.index]?.pattern.test(comparable(text))).toBe(true);
      expect(classifyBounce({ text, status, command }).reason).toBe(rule.reason);
    });
  });
});

describe.each([
  "delays",
  "finalities",
  "expiries",
  "givenUp",
  "refusals",
  "probes",
  "sendersRefused",
  "senders",
  "subjects",
  "openings",
  "automaticSubjects",
  "automaticTexts",
  "challenges",
] as const)("%s", (table) => {
  test.each(layouts[table].samples)("%s", (sample) => {
    expect(bounceRules()[table].test(comparable(sample))).toBe(true);
  });
});

test.each(layouts.returned.samples)("the returned message begins at: %s", (sample) => {
  expect(bounceRules().returned.test(sample)).toBe(true);
});

test.each([...layouts.unrouted.samples, "O'User@example.org\n  no such user"])("not routed: %j", (sample) => {
  expect(bounceRules().unrouted.test(sample)).toBe(true);
});

test.each(["user@example.org: no such user", "user@example.org\nno such user", "user@example.org\n\n  regards"])(
  "nothing tells that it was not routed: %j",
  (sample) => {
    expect(bounceRules().unrouted.test(sample)).toBe(false);
  },
);

describe("recipients", () => {
  test.each(layouts.recipients.rules)("$system", ({ samples }) => {
    for (const sample of samples) {
      const first = bounceRules().recipients.find(({ pattern }) => sample.match(pattern));
      const found = [...sample.matchAll(first?.pattern ?? /(?!)/g)].map((match) => match[1]);
      expect(found).toEqual([expect.stringMatching(/^(?:user|jane)(?:@example\.org)?$/)]);
    }
  });
});

describe("diagnostics", () => {
  test.each(layouts.diagnostics.rules)("$system", ({ samples }) => {
    for (const sample of samples) expect(remoteWords(sample)).toMatch(/^(?:550|smtp)/);
  });
});

test("no table holds a typographic quotation mark, as texts have none when they meet it", () => {
  const tables = JSON.stringify([layouts, words].map(({ about: _, ...rules }) => rules));
  expect(withAsciiQuotes(tables)).toBe(tables);
});

test.each([
  ["Votre message n’a pas pu être remis", "votre message n'a pas pu être remis"],
  ["l\x92adresse n‘existe pas", "l'adresse n'existe pas"],
  ["„Postfach“ “voll” ‚ja’ s\x93o\x94 noʼs", '"postfach" "voll" \'ja\' s"o" no\'s'],
])("%s is compared in ASCII quotation marks", (text, compared) => {
  expect(comparable(text)).toBe(compared);
});

/** All patterns that tables hold, however deep. */
function patternsIn(table: unknown): string[] {
  if (typeof table !== "object" || table === null) return [];
  return Object.entries(table).flatMap(([key, value]) => {
    if (key === "pattern") return [value as string];
    return key === "patterns" ? (value as string[]) : patternsIn(value);
  });
}

/** A run without bound costs the square of a hostile text, for each of its recipients. */
test("no pattern repeats a class of characters without bound", () => {
  const patterns = patternsIn([words, layouts]);
  expect(patterns.length).toBeGreaterThan(1_000);
  const isUnbounded = (pattern: string) =>
    /(?:\\[wsSd]|(?<!\\)\.|\[\])[*+]/.test(pattern.replaceAll(/\[(?:[^\]\\]|\\.)*\]/g, "[]"));
  expect(patterns.filter(isUnbounded)).toEqual([]);
});

test.each(layouts.actions.rules)("the action $action", ({ action, samples }) => {
  expect(DSN_ACTIONS).toContain(action);
  for (const sample of samples) {
    expect(bounceRules().actions.find(({ pattern }) => pattern.test(sample))?.action).toBe(action);
  }
});

test.each(layouts.commands.rules)("the command $command", ({ command, samples }) => {
  for (const sample of samples) {
    expect(bounceRules().commands.find(({ pattern }) => pattern.test(comparable(sample)))?.command).toBe(command);
  }
});

/** The tables of single systems, by their names. */
const systems = new Map(
  readdirSync(join(packageFolder, "config/bounces/systems")).map((file) => {
    const table = JSON.parse(readFileSync(join(packageFolder, "config/bounces/systems", file), "utf8"));
    return [basename(file, ".json"), table as { origin: string; rules: { reason: string; says: string[] }[] }];
  }),
);

describe("tables of systems", () => {
  test("every one is in use", () => {
    expect([...readSystemPhrases().keys()]).toEqual([...systems.keys()].sort());
  });

  test.each([...systems])("%s", (_, { origin, rules }) => {
    expect(origin).not.toBe("");
    for (const { reason, says } of rules) {
      expect(reasons).toContain(reason);
      expect(says).toEqual([...new Set(says)].sort());
      for (const words of says) expect(comparable(words)).toBe(words);
    }
  });

  test("no two give the same words another meaning", () => {
    const meanings = new Map<string, Set<string>>();
    for (const { reason, words } of [...readSystemPhrases().values()].flat()) {
      meanings.set(words, (meanings.get(words) ?? new Set()).add(reason));
    }
    expect([...meanings].filter(([, of]) => of.size > 1)).toEqual([]);
  });
});

describe("conflicts", () => {
  test.each([
    ["what is refused at MAIL FROM is the sender", { text: "550 unknown user", command: "mail" }, "rejected"],
    ["so is what X.1.7 to X.1.9 are about", { text: "550 5.1.8 no such domain" }, "rejected"],
    ["before MAIL FROM it is us", { text: "501 5.0.0 Invalid domain name", command: "connect" }, "blocked"],
    ["521 and 556: no mail is taken", { text: "521 5.3.2 System not accepting network messages" }, "notaccept"],
    ["given up for its age, and nothing permanent said", { text: "(#4.4.1) in the queue too long" }, "expired"],
    [
      "given up for its age after a refusal",
      { text: "550 user unknown; in the queue too long", command: "rcpt" },
      "userunknown",
    ],
    ["X.1.3 is about how an address is written", { text: "501 5.1.3 Bad recipient", command: "rcpt" }, "syntaxerror"],
    ["X.1.3 alone", { text: "550 5.1.3 no", command: "rcpt" }, "syntaxerror"],
    ["5.7.1 with an unknown user", { text: "550 5.7.1 User unknown", status: "5.7.1" }, "userunknown"],
  ] as const)("%s", (_, evidence, reason) => {
    expect(classifyBounce(evidence).reason).toBe(reason);
  });

  test("every rule has its reason told", () => {
    for (const { of, is, why } of codes.conflicts.rules) {
      for (const reason of [...of, is]) expect(reasons).toContain(reason);
      expect(why).not.toBe("");
    }
  });
});

/** The codes of the IANA registry (SMTP Enhanced Status Codes), by subject: the greatest detail of each. */
const REGISTERED = { 0: 0, 1: 10, 2: 4, 3: 6, 4: 7, 5: 6, 6: 10, 7: 30 };

test("no registered code is unknown", () => {
  for (const [subject, last] of Object.entries(REGISTERED)) {
    for (let detail = subject === "0" ? 1 : 0; detail <= last; detail++) {
      for (const statusClass of [4, 5]) {
        const status = `${statusClass}.${subject}.${detail}` as "5.1.1";
        expect(reasonOfStatus(status) ?? reasonOfSubject(status), status).toBeDefined();
      }
    }
  }
});

describe("codes", () => {
  test.each(Object.entries(codes.statuses.reasons))("status %s is %s", (codes, reason) => {
    expect(reasons).toContain(reason);
    for (const code of codes.split("-")) expect(reasonOfStatus(code as "5.1.1")).toBe(reason as BounceReason);
  });

  test.each(Object.entries(codes.replycodes.reasons))("reply code %s is %s", (codes, reason) => {
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
