import { once } from "node:events";
import { SMTPStream } from "smtp-server/lib/smtp-stream.js";
import { describe, expect, it } from "vitest";
import { MessageDots } from "../../../../services/platform/smtp/message-dots.ts";

/** What passes of a message that comes in pieces of these sizes, the last repeated, and where it ends. */
function readIn(octets: Buffer, ...sizes: readonly [number, ...number[]]): { passed: string; end: number | undefined } {
  const message = new MessageDots();
  let [start, passed] = [0, ""];
  for (let piece = 0; start < octets.length; piece += 1) {
    const size = sizes[piece] ?? sizes.at(-1)!;
    const { octets: passing, taken, isEnd } = message.read(octets.subarray(start, start + size));
    passed += passing.toString("latin1");
    start += taken;
    if (isEnd) return { passed, end: start };
  }
  return { passed, end: undefined };
}

const endOf = (octets: Buffer, ...sizes: readonly [number, ...number[]]) => readIn(octets, ...sizes).end;

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

/** RFC 5321 §4.5.2: of a line that begins with a dot and is not that dot alone the dot is deleted. */
const withoutDots = (message: string) => message.replace(/(^|\r\n)\.(?!\r\n)/g, "$1");

it.each([
  [".abc\r\n", "abc\r\n"],
  ["x\r\n.\ty\r\n", "x\r\n\ty\r\n"],
  ["..\r\n.a\r\n..b\r\n. \r\n", ".\r\na\r\n.b\r\n \r\n"],
  ["a.b\r\nc.\r\n", "a.b\r\nc.\r\n"],
])("%j is %j without the dots of its lines", async (sent, text) => {
  expect(await throughLibrary(readIn(Buffer.from(`${sent}.\r\n`), 3).passed)).toMatchObject({ text });
});

it("is, however it comes, what the library makes a message of: what is a message here is never a command there", async () => {
  const beginnings = [""];
  const differences: string[] = [];
  for (const beginning of beginnings) {
    const octets = Buffer.from(`${beginning}\r\n.\r\n`);
    const { passed, end } = readIn(octets, 1);
    for (const size of [2, 3, octets.length]) expect(readIn(octets, size)).toEqual({ passed, end });
    const taken = await throughLibrary(passed);
    // Behind a bare LF, which a strict listener refuses, the library takes a dot away as well.
    const text = withoutDots(octets.toString("latin1", 0, end! - 3));
    if (!taken.isWhole || (taken.text !== text && !/(?<!\r)\n\./.test(text))) differences.push(octets.toString());
    if (beginning.length < 5) beginnings.push(...[".", "\r", "\n", "x"].map((octet) => beginning + octet));
  }
  expect(beginnings).toHaveLength((4 ** 6 - 1) / 3);
  expect(differences).toEqual([]);
});

/** What the library takes of octets as a message, and whether that ends with the last of them. */
async function throughLibrary(passed: string): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const library = new SMTPStream();
  library.oncommand = (_command, done) => done?.();
  const data = library.startDataMode();
  library.continue();
  let text = "";
  data.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  const octets = Buffer.from(passed, "latin1");
  for (const octet of octets.subarray(0, -1)) await new Promise((resolve) => library.write(Buffer.of(octet), resolve));
  const endedEarly = data.writableEnded;
  await new Promise((resolve) => library.write(octets.subarray(-1), resolve));
  const isWhole = !endedEarly && data.writableEnded;
  if (isWhole && !data.readableEnded) await once(data, "end");
  return { text, isWhole };
}
