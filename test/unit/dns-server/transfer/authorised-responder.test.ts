import * as dnsPacket from "dns-packet";
import { expect, it } from "vitest";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import { encodeSoaRdata } from "../../../../services/core/dns/soa.ts";
import { Client, TRANSPORT } from "../../../../services/dns-server/message/client.ts";
import { AccessTable } from "../../../../services/dns-server/transfer/access-table.ts";
import { AuthorisedResponder } from "../../../../services/dns-server/transfer/authorised-responder.ts";
import { ZoneDatabaseMemory } from "../../../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseWriter } from "../../../../services/dns-server/zone-database/writer.ts";
import { openDb } from "../../../../services/platform/postgres/db.ts";
import { nameOf } from "../../../support/dns-server.ts";
import { pipelineOn } from "../test-zone-database.ts";

const MEMORY_OCTETS = 64 * 2 ** 20;
const APEX = nameOf("example.org");
/** More than one message of a transfer. */
const NAMES = 20_000;

/** A responder on a zone database of its own while PostgreSQL is away, so that it is asked nothing. */
function prepare() {
  const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(MEMORY_OCTETS));
  const load = () => loadZone(writer);
  load();
  writer.setReady();
  const grant = { resellerId: "one", name: "open", blocks: ["192.0.2.0/24"], keyName: null, zones: null, notify: [] };
  const access = new AccessTable({ version: 1, keys: [], unopenedKeys: [], grants: [grant], restricted: [] });
  const clock = { seconds: 1_700_000_000 };
  const responder = new AuthorisedResponder({
    ...{
      pipeline: pipelineOn(writer),
      writer,
      db: openDb("postgres://127.0.0.1:9/none", { connections: 1, name: "t" }),
    },
    ...{ isDatabaseAway: () => true, isLeftOut: () => false, isInScope: () => true, access: () => access },
    updates: { submit: () => Promise.reject(new Error("no updates come")) },
    nowSeconds: () => clock.seconds,
    limitLoopback: true,
    observe: () => {},
  });
  return { writer, load, clock, transfer: (address: string) => new Transfer(responder, address) };
}

function loadZone(writer: ZoneDatabaseWriter): void {
  const zone = writer.createZone({ apex: Buffer.from(APEX.key, "latin1"), negativeTtlSeconds: 60, resellerId: "one" });
  const soa = { mname: APEX, rname: APEX, serial: 1, refresh: 1, retry: 1, expire: 1, minimum: 1 };
  writer.setName(zone, APEX.wire, [{ type: TYPE.SOA, ttl: 60, rdata: encodeSoaRdata(soa) }]);
  for (let index = 0; index < NAMES; index += 1) {
    const { wire } = nameOf(`host${index}.example.org`);
    writer.setName(zone, wire, [{ type: TYPE.A, ttl: 60, rdata: Uint8Array.of(192, 0, 2, 1) }]);
  }
  writer.publishZone(zone);
}

/** An AXFR over TCP whose client takes a message when the test says so. */
class Transfer {
  messages = 0;
  readonly whole: Promise<boolean>;
  #takeNext: () => void = () => {};

  constructor(responder: AuthorisedResponder, address: string) {
    const client = new Client(TRANSPORT.TCP);
    client.setAddress(address);
    const query = dnsPacket.encode({ type: "query", id: 1, questions: [{ name: "example.org", type: "AXFR" }] });
    this.whole = responder.answer(query, client, () => {
      this.messages += 1;
      return new Promise((resolve) => {
        this.#takeNext = () => resolve(true);
      });
    });
  }

  async take(): Promise<void> {
    this.#takeNext();
    await settled();
  }

  /** Takes all that come. @returns whether the zone came whole */
  async takeAll(): Promise<boolean> {
    let isOver = false;
    void this.whole.then(() => {
      isOver = true;
    });
    while (!isOver) await this.take();
    return this.whole;
  }
}

const settled = () => new Promise(setImmediate);

it("sends a client ten zones at a time, and the next when one is over", async () => {
  const { transfer } = prepare();
  const transfers = Array.from({ length: 12 }, () => transfer("192.0.2.1"));
  const elsewhere = transfer("192.0.2.2");
  await settled();
  expect(transfers.map(({ messages }) => messages)).toEqual([...Array(10).fill(1), 0, 0]);
  expect(elsewhere.messages).toBe(1);
  expect(await transfers[3]!.takeAll()).toBe(true);
  await settled();
  expect(transfers.slice(10).map(({ messages }) => messages)).toEqual([1, 0]);
  for (const each of [...transfers, elsewhere]) expect(await each.takeAll()).toBe(true);
});

it("ends a long transfer while much of the memory is held up, and no other", async () => {
  const { writer, load, clock, transfer } = prepare();
  const [long, patient] = [transfer("192.0.2.1"), transfer("192.0.2.2")];
  await settled();
  clock.seconds += 60;
  await patient.take();
  expect(patient.messages).toBe(2);
  expect(await patient.takeAll()).toBe(true);
  while (writer.waitingOctets <= MEMORY_OCTETS / 8) {
    load();
    while (writer.collect());
  }
  const young = transfer("192.0.2.2");
  await settled();
  await long.take();
  expect(await long.whole).toBe(false);
  expect(long.messages).toBe(1);
  expect(await young.takeAll()).toBe(true);
  writer.collect();
  expect(writer.waitingOctets).toBe(0);
});
