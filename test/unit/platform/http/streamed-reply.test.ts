import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { RawReply } from "../../../../services/platform/http/endpoint.ts";
import { type StreamFor, streamedReply } from "../../../../services/platform/http/streamed-reply.ts";

/** Pieces, and whether they were ended. */
function makePieces(texts: readonly string[]) {
  const state = { ended: false };
  async function* pieces() {
    try {
      yield* texts;
    } finally {
      state.ended = true;
    }
  }
  return { pieces: pieces(), state };
}

const A: StreamFor = { callerKey: "a", holds: "connection" };

/** Of more than two characters is large. */
const SMALL = { smallCharacters: 2 };
const PACE = { leastOctets: 1, everyMs: 60_000, deadlineMs: 60_000 };

async function replyOf(texts: readonly string[], whose = A): Promise<RawReply | undefined> {
  const reply = await streamedReply("text/plain", makePieces(texts).pieces, whose, SMALL);
  if (!reply.ok) throw new Error("refused");
  return reply.value;
}

const textOf = async (body: unknown) => (await (body as Readable).toArray()).join("");

describe("streamedReply", () => {
  it("is nothing without pieces, a text of a few characters, a stream of more", async () => {
    expect(await replyOf([])).toBeUndefined();
    expect((await replyOf([""]))?.body).toBe("");
    expect((await replyOf(["a", "b"]))?.body).toBe("ab");
    const many = (await replyOf(["a", "b", "", "ñ", "c"]))?.body;
    expect(many).toBeInstanceOf(Readable);
    expect(await textOf(many)).toBe("abñc");
  });

  it("ends the pieces when the client goes, even before it read anything", async () => {
    const { pieces, state } = makePieces(["abc", "d", "e"]);
    const reply = await streamedReply("text/plain", pieces, A, SMALL);
    const body = (reply.ok && reply.value?.body) as Readable;
    await new Promise((resolve) => body.once("close", resolve).destroy());
    expect(state.ended).toBe(true);
  });

  it("cuts off a client that reads nothing", async () => {
    const { pieces, state } = makePieces(["abc", "d", "e"]);
    const reply = await streamedReply("text/plain", pieces, A, { ...SMALL, pace: { ...PACE, everyMs: 20 } });
    const body = (reply.ok && reply.value?.body) as Readable;
    const error = await new Promise((resolve) => body.once("error", resolve));
    expect(String(error)).toContain("reads no more");
    expect(state.ended).toBe(true);
  });

  const trickled = (texts: readonly string[], pace: typeof PACE, everyMs: number) =>
    streamedReply("text/plain", makePieces(texts).pieces, A, { ...SMALL, pace }).then(async (reply) => {
      const body = (reply.ok && reply.value?.body) as Readable;
      let octets = 0;
      for await (const slice of body) {
        octets += (slice as Buffer).length;
        await sleep(everyMs);
      }
      return octets;
    });

  it("cuts off a client that reads, but too slowly, and not one at the pace", async () => {
    const texts = Array.from({ length: 20 }, () => "x".repeat(16 * 1024));
    const pace = { leastOctets: 64 * 1024, everyMs: 200, deadlineMs: 10_000 };
    await expect(trickled(texts, pace, 150)).rejects.toThrow("too slowly");
    expect(await trickled(texts, pace, 5)).toBe(20 * 16 * 1024);
  });

  it("cuts off a client that reads for too long at whatever pace", async () => {
    const texts = Array.from({ length: 100 }, () => "x".repeat(16 * 1024));
    await expect(trickled(texts, { leastOctets: 1, everyMs: 100, deadlineMs: 150 }, 20)).rejects.toThrow("too long");
  });

  it("cuts no character in two", async () => {
    const text = `a${"ñ😀".repeat(20_000)}`;
    const body = (await replyOf([text]))?.body as Readable;
    expect(Buffer.concat(await body.toArray()).toString()).toBe(text);
  });

  it("refuses a caller's third stream and lets others go on, until one has ended", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 2; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const { pieces, state } = makePieces(["abc", "d"]);
    expect(await streamedReply("text/plain", pieces, A, SMALL)).toEqual({
      ok: false,
      error: { kind: "rate-limited", retryAfterSeconds: 5 },
    });
    expect(state.ended).toBe(true);
    expect((await replyOf(["ab"]))?.body).toBe("ab");
    expect(await textOf((await replyOf(["abc", "d"], { ...A, callerKey: "b" }))?.body)).toBe("abcd");
    await textOf(bodies.pop());
    bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    await Promise.all(bodies.map(textOf));
  });

  it("holds a few connections at a time, and as much memory beside them", async () => {
    const bodies: Readable[] = [];
    const open = async (callerKey: string, holds: StreamFor["holds"]) =>
      bodies.push((await replyOf(["abc", "d"], { callerKey, holds }))?.body as Readable);
    for (const callerKey of ["a", "a", "b", "b", "c", "c"]) await open(callerKey, "connection");
    const { pieces } = makePieces(["abc", "d"]);
    const refused = await streamedReply("text/plain", pieces, { callerKey: "d", holds: "connection" }, SMALL);
    expect(refused).toEqual({ ok: false, error: { kind: "unavailable" } });
    await open("d", "memory");
    await Promise.all(bodies.map(textOf));
    expect(await textOf((await replyOf(["abc", "d"]))?.body)).toBe("abcd");
  });

  it("passes on what fails", async () => {
    async function* pieces() {
      yield "abc";
      throw new Error("the database is away");
    }
    const reply = await streamedReply("text/plain", pieces(), A, SMALL);
    await expect(textOf(reply.ok && reply.value?.body)).rejects.toThrow("away");
  });
});
