import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { SmtpDialogue } from "../../../../services/platform/smtp/dialogue.ts";

const REPLY_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A dialogue, what says something to it, and what takes the writes that it hands over. */
function begin() {
  const writes: { readonly what: string; readonly taken?: () => void }[] = [];
  const write = (octets: string | Buffer, taken?: () => void) => {
    writes.push({ what: octets.toString(), ...(taken && { taken }) });
  };
  const socket = Object.assign(new EventEmitter(), { write, resume() {} });
  const dialogue = new SmtpDialogue(socket as unknown as Socket, REPLY_MS);
  const say = (text: string) => socket.emit("data", Buffer.from(text, "latin1"));
  return { dialogue, socket, say, writes };
}

/** A dialogue that has asked one thing. */
function ask() {
  const begun = begin();
  begun.dialogue.command("NOOP");
  return begun;
}

test("a reply that trickles is waited for no longer than one that does not come", async () => {
  const { dialogue, say } = ask();
  const reply = dialogue.readReply();
  for (let line = 0; line < 11; line += 1) {
    await vi.advanceTimersByTimeAsync(REPLY_MS / 10);
    say("250-more\r\n");
  }
  expect(await reply).toMatchObject({ ok: false, error: "no whole reply in time" });
  expect(dialogue.isOver).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

describe("a message", () => {
  const BLOCK_MS = 180_000;
  const blocks = () => ["a", "b", "c"].map((text) => Buffer.from(text));

  test("goes out block by block, each in its time, and its reply is waited for from then on", async () => {
    const { dialogue, say, writes } = begin();
    const reply = dialogue.sendMessage(blocks());
    for (const written of ["a", "b", "c"]) {
      await vi.advanceTimersByTimeAsync(BLOCK_MS - 1);
      expect(writes.at(-1)?.what).toBe(written);
      writes.at(-1)?.taken?.();
    }
    await vi.advanceTimersByTimeAsync(REPLY_MS - 1);
    say("250 taken\r\n");
    expect(await reply).toMatchObject({ ok: true, value: { code: 250 } });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("of which a block is not taken ends the dialogue", async () => {
    const { dialogue, writes } = begin();
    const reply = dialogue.sendMessage(blocks());
    writes[0]?.taken?.();
    await vi.advanceTimersByTimeAsync(BLOCK_MS);
    expect(await reply).toEqual({ ok: false, error: "the server stopped taking the message" });
    expect([dialogue.isOver, writes.length, vi.getTimerCount()]).toEqual([true, 2, 0]);
  });

  test.each([
    ["552 too large", { ok: true, value: { code: 552 } }],
    ["250 taken", { ok: false, error: "a reply before the end of the message" }],
  ])("is not sent on once it is answered with %s", async (said, expected) => {
    const { dialogue, say, writes } = begin();
    const reply = dialogue.sendMessage(blocks());
    say(`${said}\r\n`);
    expect(await reply).toMatchObject(expected);
    expect([dialogue.isOver, writes.length, vi.getTimerCount()]).toEqual([true, 1, 0]);
  });
});

test("empty lines count towards a reply without end", async () => {
  const { dialogue, say } = ask();
  const reply = dialogue.readReply();
  say("250-more\n");
  say("\n".repeat(100_000));
  expect(dialogue.isOver).toBe(true);
  expect(await reply).toMatchObject({ ok: false, error: "a reply without end" });
});

test("what is said once it is over is not heard, and not kept", () => {
  const { dialogue, socket } = ask();
  expect(socket.listenerCount("data")).toBe(1);
  dialogue.end("enough");
  expect(socket.listenerCount("data")).toBe(0);
});
