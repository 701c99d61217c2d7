import { expect, it } from "vitest";
import { askServer } from "../../../services/console/dns-question.ts";
import { nameFromStoredWire } from "../../../services/core/dns/name.ts";
import { TYPE } from "../../../services/core/dns/rr-types.ts";

it("hears nothing where there is no way to the server", async () => {
  const name = nameFromStoredWire(Buffer.from("\x07example\x03org\0", "latin1"));
  // Without leave to broadcast no socket is connected to this address.
  const server = { host: "255.255.255.255", port: 53 };
  expect(await askServer(server, { name, type: TYPE.SOA, dnssec: false })).toEqual({ ok: false, error: "timeout" });
});
