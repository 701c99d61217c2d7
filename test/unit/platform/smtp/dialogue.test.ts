import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SmtpDialogue } from "../../../../services/platform/smtp/dialogue.ts";

const REPLY_MS = 1_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A dialogue that has asked one thing, and what says something to it. */
function ask(): { dialogue: SmtpDialogue; socket: EventEmitter; say: (text: string) => void } {
  const socket = Object.assign(new EventEmitter(), { write() {}, cork() {}, uncork() {}, resume() {} });
  const dialogue = new SmtpDialogue(socket as unknown as Socket, REPLY_MS);
  dialogue.command("NOOP");
  return { dialogue, socket, say: (text) => socket.emit("data", Buffer.from(text, "latin1")) };
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

test("the reply to a large message is given the time to send it", async () => {
  const { dialogue, say } = ask();
  const reply = dialogue.readReply(3 * 2 ** 20);
  await vi.advanceTimersByTimeAsync(3.5 * REPLY_MS);
  say("250 taken\r\n");
  expect(await reply).toMatchObject({ ok: true, value: { code: 250 } });
  expect(vi.getTimerCount()).toBe(0);
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
