import { Readable } from "node:stream";
import type { SMTPServerDataStream } from "smtp-server";
import { expect, it } from "vitest";
import { MessageCollector } from "../../../../services/platform/smtp/message-collector.ts";
import { settledMemory } from "../../../support/settled-memory.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** @param pieces as they come off the wire; `byteLength` counts those that were read, as smtp-server has it */
function streamOf(pieces: Iterable<Buffer> | AsyncIterable<Buffer>): SMTPServerDataStream {
  const read = { byteLength: 0 };
  async function* count() {
    for await (const piece of pieces) {
      read.byteLength += piece.length;
      yield piece;
    }
  }
  const stream = Object.defineProperty(Readable.from(count()), "byteLength", { get: () => read.byteLength });
  return stream as unknown as SMTPServerDataStream;
}

function inUse(): number {
  const { heapUsed, external } = settledMemory();
  return heapUsed + external;
}

// smtp-server hands each line that begins with a stuffed dot on as a piece of its own; TCP may bring octets one by one.
it("holds no more than it counts, however small the pieces are", async () => {
  const collector = new MessageCollector("strict");
  const size = { mostOctets: 8 * MIB, keptOctets: MIB };
  let held = Number.NaN;
  async function* dots() {
    const before = inUse();
    for (let sent = 0; sent < MIB; sent += 4) yield Buffer.from(".x\r\n");
    held = inUse() - before;
  }
  const message = await collector.collect(streamOf(dots()), size, "holder");
  expect(message.ok && message.value.octets.length).toBe(MIB);
  expect(held).toBeLessThan(2 * MIB);
});

it("counts what a message takes while it comes, and its length once it is whole", async () => {
  const collector = new MessageCollector("strict");
  const size = { mostOctets: 25 * MIB, keptOctets: 25 * MIB };
  // A share is 64 MiB: of messages that are whole 32 of 2 MiB fit in, and not one more.
  const wholeOnes = await Promise.all(
    Array.from({ length: 33 }, () => collector.collect(streamOf([Buffer.alloc(2 * MIB, "x")]), size, "holder")),
  );
  expect(wholeOnes.filter(({ ok }) => ok)).toHaveLength(32);
  for (const whole of wholeOnes) if (whole.ok) whole.value.release();
  const again = await collector.collect(streamOf([Buffer.alloc(MIB, "x")]), size, "holder");
  expect(again.ok).toBe(true);
});

it("keeps the beginning of a message, whole to its last octet", async () => {
  const collector = new MessageCollector("as-they-are");
  const given = Buffer.from(Array.from({ length: 300 * KIB }, (_, at) => at % 251));
  const pieces = [given.subarray(0, 1), given.subarray(1, 200 * KIB), given.subarray(200 * KIB)];
  for (const keptOctets of [0, 1, 64 * KIB, 64 * KIB + 1, 250 * KIB, 300 * KIB, 400 * KIB]) {
    const message = await collector.collect(streamOf(pieces), { mostOctets: MIB, keptOctets }, "holder");
    expect(message.ok && message.value.octets.equals(given.subarray(0, keptOctets))).toBe(true);
  }
});
