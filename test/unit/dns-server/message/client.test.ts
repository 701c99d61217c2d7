import { expect, it } from "vitest";
import { Client } from "../../../../services/dns-server/message/client.ts";

it.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8::1", "2001:db8::1"],
  ["::1", "::1"],
  ["fe80::a%eth0", "fe80::a"],
])("a client at %s is shown as %s", (text, shown) => {
  const client = new Client();
  client.setAddress(text);
  expect(client.addressText).toBe(shown);
});

it("an address takes the place of the one before whole", () => {
  const client = new Client();
  client.setAddress("2001:db8:1:2:3:4:5:6");
  client.setAddress("2001:db8::192.0.2.1");
  expect(client.addressText).toBe("2001:db8::c000:201");
});

it.each(["", "host.example.org", "192.0.2.256", "2001:db8::1::2"])("%j is no address", (text) => {
  expect(() => new Client().setAddress(text)).toThrow("not an address");
});
