import { expect, test } from "vitest";
import { interpret } from "../../../services/operations/mail/interpret.ts";
import { makeReport } from "../../../services/sandbox/reports.ts";

const TOKEN = `b+${"a".repeat(12)}.${"b".repeat(24)}`;
const surroundings = { hostname: "mx.example.org", feedbackAddress: "fbl@example.org", now: new Date(0) };

test.each([10, 20 * 2 ** 20])(
  "a complaint about a message of %d octets is one that feedback addresses take",
  async (size) => {
    const { octets, rcptTo } = makeReport(
      {
        id: 1,
        mailFrom: `${TOKEN}@bounces.example.org`,
        rcptTo: "complaint+1@example.net",
        octets: Buffer.from(`X-Delivery-Token: ${TOKEN}\r\nSubject: x\r\n\r\n${"x".repeat(size)}`),
        receivedAt: new Date(0),
        outcome: "complained",
      },
      surroundings,
    );
    expect(rcptTo).toBe("fbl@example.org");
    expect(octets.length).toBeLessThan(2 ** 20);
    const finding = await interpret(octets);
    expect(finding.kind).toBe("arf");
    expect(finding.original?.headers.get("x-delivery-token")).toBe(TOKEN);
  },
);
