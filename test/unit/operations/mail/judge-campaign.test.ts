import { expect, test } from "vitest";
import { judgedEnvelope } from "../../../../services/operations/mail/judge-campaign.ts";
import type { Resolver } from "../../../../services/platform/lookups/resolver.ts";

const resolver = { resolveA: async () => ({ kind: "none" }) } as unknown as Resolver;
const deployment = { hostname: "mx.example.org", bounceDomain: "bounces.example.org" };

test.each([
  ["To: Ann <ann@example.net>, bob@example.net\r\n", "ann@example.net"],
  ["Subject: x\r\nTO:\r\n =?utf-8?q?=C3=91?= <n@example.net>\r\n", "n@example.net"],
  ["To: friends: carl@example.net;\r\n", "carl@example.net"],
  ["Subject: x\r\n", "judge@example.net"],
  ["To: undisclosed-recipients:;\r\n", "judge@example.net"],
  ["Subject: x\r\n\r\nTo: body@example.net\r\n", "judge@example.net"],
])("%j is judged as if sent to %s", async (header, rcptTo) => {
  const octets = Buffer.from(`From: a@example.org\r\n${header}\r\ntext\r\n`);
  expect(await judgedEnvelope(deployment, resolver, octets)).toMatchObject({ rcptTo, octets });
});
