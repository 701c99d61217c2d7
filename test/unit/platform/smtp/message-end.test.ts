import { SMTPStream } from "smtp-server/lib/smtp-stream.js";
import { describe, expect, it } from "vitest";
import { MessageEnd } from "../../../../services/platform/smtp/message-end.ts";

/** @returns where the message ends when it comes in pieces of these sizes, the last repeated */
function endOf(octets: Buffer, ...sizes: readonly [number, ...number[]]): number | undefined {
  const message = new MessageEnd();
  let start = 0;
  for (let piece = 0; start < octets.length; piece += 1) {
    const size = sizes[piece] ?? sizes.at(-1)!;
    const found = message.find(octets.subarray(start, start + size));
    if (found !== undefined) return start + found;
    start += size;
  }
  return undefined;
}

describe.each([
  [".\r\n", 3],
  ["\r\n.\r\n", 5],
  ["x\r\n.\r\n", 6],
  ["..\r\n.\r\n", 7],
  [".\r\r\n.\r\n", 7],
  ["x\r\n..\r\n.\r\n", 10],
  ["x\r\n.\r\n.\r\n", 6],
  ["x\r\r\n.\r\nQUIT\r\n", 7],
  ["x\r\n\r\n.\r\n", 8],
  ["x.\r\n", undefined],
  [".\n", undefined],
  ["x\n.\n", undefined],
  ["x\r\n.\n", undefined],
  ["x\n.\r\n", undefined],
  ["x\r.\r\n", undefined],
  [".\r", undefined],
])("%j", (text, end) => {
  const octets = Buffer.from(text, "latin1");

  it(`ends at ${end}, however it comes`, () => {
    for (let first = 1; first <= octets.length; first += 1) {
      expect(endOf(octets, first, octets.length)).toBe(end);
      for (let others = 1; others <= 5; others += 1) expect(endOf(octets, first, others)).toBe(end);
    }
  });
});

it("is where the library sees it, whatever comes: what is a message here is never a command there", async () => {
  const beginnings = [""];
  const differences: string[] = [];
  for (const beginning of beginnings) {
    const octets = Buffer.from(`${beginning}\r\n.\r\n`);
    if ((await libraryEndOf(octets)) !== endOf(octets, 1)) differences.push(octets.toString());
    if (beginning.length < 5) beginnings.push(...[".", "\r", "\n", "x"].map((octet) => beginning + octet));
  }
  expect(beginnings).toHaveLength((4 ** 6 - 1) / 3);
  expect(differences).toEqual([]);
});

async function libraryEndOf(octets: Buffer): Promise<number | undefined> {
  const library = new SMTPStream();
  library.oncommand = (_command, done) => done?.();
  const data = library.startDataMode().resume();
  library.continue();
  for (const [index, octet] of octets.entries()) {
    await new Promise((resolve) => library.write(Buffer.of(octet), resolve));
    if (data.writableEnded) return index + 1;
  }
  return undefined;
}
