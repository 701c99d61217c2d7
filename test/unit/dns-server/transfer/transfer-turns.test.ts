import { expect, it } from "vitest";
import { Client } from "../../../../services/dns-server/message/client.ts";
import { TransferTurns, type TurnLimits } from "../../../../services/dns-server/transfer/transfer-turns.ts";

const LIMITS: TurnLimits = { ofClient: 2, ofReseller: 3, waitingOfClient: 2, patienceMs: 60_000 };

function clientAt(address: string): Client {
  const client = new Client();
  client.setAddress(address);
  return client;
}

/** Takes turns, and takes down which began. */
function record(turns: TransferTurns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const take = async (name: string, address: string, resellerId: string) => {
    const end = await turns.take(clientAt(address), resellerId);
    begun.push(end ? name : `not ${name}`);
    if (end) ends.set(name, end);
  };
  const end = (name: string) => {
    ends.get(name)!();
    return settled();
  };
  return { begun, take, end };
}

const settled = () => new Promise(setImmediate);

it("a client has some at a time, by whichever ACL, and those that wait come in order", async () => {
  const { begun, take, end } = record(new TransferTurns(LIMITS));
  for (const name of ["a", "b", "c", "d"]) void take(name, "192.0.2.1", name);
  void take("elsewhere", "192.0.2.2", "e");
  await settled();
  expect(begun).toEqual(["a", "b", "elsewhere"]);
  await end("b");
  await end("a");
  expect(begun).toEqual(["a", "b", "elsewhere", "c", "d"]);
});

it("a reseller has some at a time with all of its clients, and holds up nobody else", async () => {
  const { begun, take, end } = record(new TransferTurns(LIMITS));
  for (const host of [1, 2, 3, 4, 5]) void take(`${host}`, `192.0.2.${host}`, "one");
  void take("other", "192.0.2.5", "two");
  await settled();
  expect(begun).toEqual(["1", "2", "3", "other"]);
  await end("other");
  expect(begun).toHaveLength(4);
  await end("2");
  expect(begun.slice(4)).toEqual(["4"]);
});

it("addresses of an IPv6 /64 are one client", async () => {
  const { begun, take } = record(new TransferTurns(LIMITS));
  for (const host of [1, 2, 3]) void take(`${host}`, `2001:db8::${host}`, "one");
  void take("next", "2001:db8:0:1::1", "one");
  await settled();
  expect(begun).toEqual(["1", "2", "next"]);
});

it("so many of a client wait, and not for ever; who gave up is passed over", async () => {
  const { begun, take, end } = record(new TransferTurns({ ...LIMITS, patienceMs: 1 }));
  const all = ["a", "b", "c", "d", "e"].map((name) => take(name, "192.0.2.1", "one"));
  await settled();
  expect(begun.slice(0, 3)).toEqual(["a", "b", "not e"]);
  await Promise.all(all);
  expect(begun.slice(3)).toEqual(["not c", "not d"]);
  await end("a");
  await take("f", "192.0.2.1", "one");
  expect(begun.at(-1)).toBe("f");
});
