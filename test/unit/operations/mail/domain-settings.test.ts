import { expect, test } from "vitest";
import { readSettings } from "../../../../services/operations/mail/domain-settings.ts";
import type { DomainUpkeep } from "../../../../services/store/mail/instances/domain-upkeep.ts";

const NOW = new Date("2026-11-30T12:00:00Z");
const UPKEEP: DomainUpkeep = {
  ...{ instanceId: 1, domain: "sender.example.org", zoneId: null, agreedBy: null, byOperator: false },
  ...{ stsMode: null, stsExchangers: [], stsEndsAt: null, tlsReports: true, trackingHost: null },
  ...{ rotateDays: null, rotatedAt: NOW, checks: null, checkedAt: null },
};

test.each([
  ["palomar._domainkey.sender.example.org", "no-host-name"],
  ["links..sender.example.org", "no-host-name"],
  ["sender.example.org", "host-below-domain"],
  ["mta-sts.sender.example.org", "host-below-domain"],
  ["links.example.com", "host-below-domain"],
])("%s is no host for links, and it is said why", (host, reason) => {
  expect(readSettings(UPKEEP, { tracking_host: host }, NOW)).toMatchObject({
    ok: false,
    error: { reason: { code: reason } },
  });
});

test("a name below the domain is taken", () => {
  expect(readSettings(UPKEEP, { tracking_host: "Links.sender.example.org" }, NOW)).toEqual({
    ok: true,
    value: { trackingHost: "links.sender.example.org" },
  });
});

test("a policy that was asked for is withdrawn for as long as senders may go by it, and back at once", () => {
  const week = new Date("2026-12-07T12:00:00Z");
  const of = (upkeep: Partial<DomainUpkeep>, mta_sts: "off" | "enforce") => {
    const read = readSettings({ ...UPKEEP, ...upkeep }, { mta_sts }, NOW);
    return read.ok && read.value;
  };
  expect(of({ stsMode: "enforce" }, "off")).toEqual({ stsMode: null, stsEndsAt: week });
  // Its end stays where it is.
  expect(of({ stsEndsAt: NOW }, "off")).toEqual({ stsMode: null });
  expect(of({ stsEndsAt: week }, "enforce")).toEqual({ stsMode: "enforce", stsEndsAt: null });
});
