import { expect, it } from "vitest";
import { encodeMessage } from "../../../../services/core/dns/message.ts";
import { CLASS } from "../../../../services/core/dns/rr-types.ts";
import { TransferredRecords } from "../../../../services/dns-server/feed/transferred-records.ts";
import { recordsOf } from "../test-zone-database.ts";

const RECORDS = recordsOf({
  origin: "example.org",
  text: "@ SOA ns h 1 2 3 4 5\n@ MX 10 mail\nmail A 192.0.2.1\n_sip._tcp SRV 1 2 3 mail\nWWW CNAME mail.example.net.\n",
});
const MESSAGE = encodeMessage({
  id: 0,
  opcode: 0,
  flags: { qr: true, aa: true, tc: false, rd: false, ra: false, ad: false, cd: false },
  rcode: 0,
  questions: [],
  answers: RECORDS.map((record) => ({ ...record, class: CLASS.IN })),
  authorities: [],
  additionals: [],
  edns: undefined,
});

it("gives each record uncompressed, its case kept", () => {
  expect(readAll(MESSAGE)).toEqual(
    RECORDS.map(({ owner, type, ttl, rdata }) => ({ owner: hex(owner.wire), type, ttl, rdata: hex(rdata) })),
  );
});

it("refuses what ends early or points forwards, wherever that is", () => {
  for (let length = 12; length < MESSAGE.length; length += 1) {
    expect(() => readAll(MESSAGE.subarray(0, length)), `${length} octets`).toThrow("malformed");
  }
  for (let position = 12; position < MESSAGE.length - 1; position += 1) {
    const hostile = Uint8Array.from(MESSAGE);
    hostile.set([0xff, 0xff], position);
    try {
      readAll(hostile);
    } catch (error) {
      expect((error as Error).message, `at ${position}`).toContain("malformed");
    }
  }
});

function readAll(message: Uint8Array) {
  const records = new TransferredRecords();
  const all: { owner: string; type: number; ttl: number; rdata: string }[] = [];
  records.begin(message);
  while (records.next()) {
    const { octets, ownerOctets, rdataStart, rdataOctets, type, ttl } = records;
    const rdata = hex(octets.subarray(rdataStart, rdataStart + rdataOctets));
    all.push({ owner: hex(octets.subarray(0, ownerOctets)), type, ttl, rdata });
  }
  return all;
}

function hex(octets: Uint8Array): string {
  return Buffer.from(octets).toString("hex");
}
