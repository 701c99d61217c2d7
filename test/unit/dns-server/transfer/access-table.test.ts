import { expect, it } from "vitest";
import type { TsigKey } from "../../../../services/core/dns/tsig.ts";
import { Client } from "../../../../services/dns-server/message/client.ts";
import { AccessTable } from "../../../../services/dns-server/transfer/access-table.ts";
import type { TransferGrant } from "../../../../services/store/dns/transfer-access.ts";
import { nameOf } from "../../../support/dns-server.ts";

const APEX = nameOf("example.org");
const KEY = { name: "key.example", algorithm: "hmac-sha256", secret: Buffer.alloc(32) } as const;

const grant = (resellerId: string, more: Partial<TransferGrant>): TransferGrant => ({
  ...{ resellerId, name: "x", blocks: [], keyName: null, zones: null, notify: [] },
  ...more,
});

function clientAt(address: string): Client {
  const client = new Client();
  client.setAddress(address);
  return client;
}

it.each<[string, TransferGrant, string]>([
  [
    "a block of mapped addresses",
    grant("bad", { blocks: ["192.0.2.0/24", "::ffff:192.0.2.1/128"] }),
    "::ffff:192.0.2.1/128 is about IPv4 addresses: write it as an IPv4 block, 192.0.2.1/32",
  ],
  [
    "what is no block",
    grant("bad", { blocks: ["300.1.1.1/8"] }),
    "300.1.1.1/8 is not an address or a block of addresses",
  ],
  [
    "a key that cannot be opened",
    grant("bad", { blocks: ["192.0.2.0/24"], keyName: "lost.example" }),
    "its TSIG key lost.example cannot be read",
  ],
  ["what is no name", grant("bad", { blocks: ["192.0.2.0/24"], zones: ["a..b"] }), "stored name a..b is corrupt"],
])("%s lets nobody in, and takes nobody else's access away", (_, bad, reason) => {
  const good = [grant("good", { blocks: ["192.0.2.0/24"] }), grant("keyed", { keyName: KEY.name })];
  const access = new AccessTable({
    ...{ version: 1, keys: [KEY], unopenedKeys: ["lost.example"] },
    ...{ grants: [bad, ...good], restricted: [{ apex: APEX.wire, resellerIds: ["good"] }] },
  });
  expect(access.unreadable).toEqual([
    "TSIG key lost.example: its secret cannot be opened",
    expect.stringContaining(`ACL x of reseller bad: ${reason}`),
  ]);
  const grantor = (resellerId: string, key?: TsigKey) =>
    access.grantorOf({ apex: APEX, resellerIds: [resellerId] }, clientAt("192.0.2.1"), key);
  expect(grantor("bad")).toBeUndefined();
  expect(grantor("good")).toBe("good");
  expect(grantor("keyed", access.keyNamed(nameOf(KEY.name)))).toBe("keyed");
  expect(access.guardsOf(APEX)).toEqual(["good"]);
});
