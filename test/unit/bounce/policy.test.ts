import { expect, test } from "vitest";
import { loadInboundPolicy, readInboundPolicy } from "../../../services/bounce/policy.ts";

const policy = loadInboundPolicy();

test("config/inbound.json is lawful", () => {
  expect(readInboundPolicy(policy)).toEqual({ ok: true, value: policy });
});

test.each([
  ["without a class", { ...policy, feedback: undefined }, "feedback"],
  [
    "with a limit of nothing",
    { ...policy, feedback: { ...policy.feedback, messagesPerSource: 0 } },
    "messagesPerSource",
  ],
  ["with a limit that is a text", { ...policy, windowSeconds: "600" }, "windowSeconds"],
  ["with a limit that nobody knows", { ...policy, unexplained: { ...policy.unexplained, days: 3 } }, "days"],
])("a file %s is refused by its name", (_, data, name) => {
  expect(readInboundPolicy(data)).toMatchObject({ ok: false, error: expect.stringContaining(name) });
});
