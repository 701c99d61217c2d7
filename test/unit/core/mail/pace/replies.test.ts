import { describe, expect, test } from "vitest";
import groups from "../../../../../config/domain-groups.json" with { type: "json" };
import file from "../../../../../config/pace-replies.json" with { type: "json" };
import { readPaceReplies, readPaceSignal } from "../../../../../services/core/mail/pace/replies.ts";
import { parseSmtpReply } from "../../../../../services/core/mail/smtp-reply.ts";

const read = readPaceReplies(file);
if (!read.ok) throw new Error(read.error);
const table = read.value;

const signalOf = (provider: string, text: string, wantsLess: "rate" | "nothing" = "nothing") =>
  readPaceSignal(parseSmtpReply(text)!, { provider, table, wantsLess });

test("each provider of the table is known, has its documentation named, and rows that can be reached", () => {
  const known = new Set([null, ...groups.map(({ name }) => name)] as (string | null)[]);
  expect(table.filter(({ provider }) => !known.has(provider))).toEqual([]);
  for (const { provider, replies } of table) {
    for (const { code = 421, status, says = "", concerns, waitSeconds } of replies) {
      const signal = signalOf(provider ?? "other.example", `${code} ${status ?? "4.7.0"} ${says}`);
      expect(signal?.concerns ?? "nothing").toBe(concerns);
      if (signal) expect(signal.waitSeconds).toBe(waitSeconds);
    }
  }
});

describe("what providers say", () => {
  test.each([
    ["gmail", "421 4.7.28 Gmail has detected an unusual rate of mail.", "rate", 60],
    [
      "outlook",
      "451 4.7.652 The mail server [192.0.2.1] has exceeded the maximum number of connections. (S3115)",
      "connections",
      30,
    ],
    ["yahoo", "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred", "rate", 300],
    ["netease", "450 MI:DMC 163 smtp1, too many", "messages-per-connection", undefined],
    ["other.example", "421 4.7.0 Too many connections from 192.0.2.1", "connections", 30],
    ["other.example", "451 4.7.28 slow down, try again in 5 minutes", "rate", 300],
    ["gmail", "421 4.7.28 wait 40 minutes", "rate", 2_400],
  ])("%s: %s", (provider, text, concerns, waitSeconds) => {
    expect(signalOf(provider, text)).toEqual({ concerns, waitSeconds });
  });

  test("about one recipient is no matter of the source, although it sounds so", () => {
    const text = "450 4.2.1 The user you are trying to contact is receiving mail at a rate that is too high";
    expect(signalOf("gmail", text, "rate")).toBeUndefined();
    expect(signalOf("gmail", text.replace("mail", "email"), "rate")).toBeUndefined();
    expect(signalOf("other.example", text, "rate")).toEqual({ concerns: "rate", waitSeconds: undefined });
  });

  test("of other troubles is none", () => {
    expect(signalOf("gmail", "451 4.3.0 try again later")).toBeUndefined();
    expect(signalOf("yahoo", "421 4.3.2 shutting down, retry in 9 minutes")).toBeUndefined();
  });

  test("stops everybody's mail for no longer than providers are known to ask for", () => {
    expect(signalOf("gmail", "421 4.7.28 try again in 24 hours")?.waitSeconds).toBe(3_600);
    expect(signalOf("other.example", "421 4.7.28 try again in 99999 hours")?.waitSeconds).toBe(3_600);
    expect(signalOf("gmail", "421 4.7.28 try again in 0 seconds")?.waitSeconds).toBe(60);
  });

  test("goes by what the file has for the provider", () => {
    const row = { documentation: "here", replies: [{ status: "4.7.28", concerns: "rate" as const }] };
    const lawful = readPaceReplies([
      { ...row, provider: "gmail", mostWaitSeconds: 7_200 },
      { ...row, provider: null, mostWaitSeconds: 60 },
    ]);
    if (!lawful.ok) throw new Error(lawful.error);
    const reply = parseSmtpReply("421 4.7.28 try again in 24 hours")!;
    const waitOf = (provider: string) =>
      readPaceSignal(reply, { provider, table: lawful.value, wantsLess: "nothing" })?.waitSeconds;
    expect(waitOf("gmail")).toBe(7_200);
    expect(waitOf("other.example")).toBe(60);
    expect(readPaceReplies([{ ...row, provider: null }]).ok).toBe(false);
    expect(readPaceReplies([{ ...row, provider: null, mostWaitSeconds: 86_401 }]).ok).toBe(false);
  });
});

test.each([
  [{}, "list"],
  [[{ provider: "gmail", documentation: "", replies: [] }], "documentation"],
  [[{ provider: null, documentation: "x", replies: [{ concerns: "rate" }] }], "every reply"],
  [[{ provider: null, documentation: "x", replies: [{ code: 250, concerns: "rate" }] }], "refusal"],
  [[{ provider: null, documentation: "x", replies: [{ code: 421, concerns: "speed" }] }], "unknown"],
  [[{ provider: null, documentation: "x", replies: [{ code: 421, concerns: "rate", waitSeconds: -1 }] }], "range"],
  [[{ provider: null, documentation: "x", replies: [{ code: 421, concerns: "rate", checked: "yes" }] }], "found"],
])("a table that cannot be meant is refused: %j", (data, reason) => {
  const refused = readPaceReplies(data);
  expect(!refused.ok && refused.error).toContain(reason);
});
