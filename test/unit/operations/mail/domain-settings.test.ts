import { expect, test } from "vitest";
import { readSettings } from "../../../../services/operations/mail/domain-settings.ts";

const DOMAIN = "sender.example.org";

test.each([
  ["palomar._domainkey.sender.example.org", "no-host-name"],
  ["links..sender.example.org", "no-host-name"],
  ["sender.example.org", "host-below-domain"],
  ["mta-sts.sender.example.org", "host-below-domain"],
  ["links.example.com", "host-below-domain"],
])("%s is no host for links, and it is said why", (host, reason) => {
  expect(readSettings(DOMAIN, { tracking_host: host })).toMatchObject({
    ok: false,
    error: { reason: { code: reason } },
  });
});

test("a name below the domain is taken", () => {
  expect(readSettings(DOMAIN, { tracking_host: "Links.sender.example.org" })).toEqual({
    ok: true,
    value: { trackingHost: "links.sender.example.org" },
  });
});
