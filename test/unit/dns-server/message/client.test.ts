import { expect, it } from "vitest";
import { Client } from "../../../../services/dns-server/message/client.ts";

it.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8::1", "2001:db8:0:0:0:0:0:1"],
  ["::1", "0:0:0:0:0:0:0:1"],
  ["fe80::a%eth0", "fe80:0:0:0:0:0:0:a"],
])("a client at %s is shown as %s", (text, shown) => {
  const client = new Client();
  client.setAddress(text);
  expect(client.addressText).toBe(shown);
});
