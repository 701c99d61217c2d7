import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { RawReply } from "../../../../services/platform/http/endpoint.ts";
import { streamedReply } from "../../../../services/platform/http/streamed-reply.ts";

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

/** Of more than two characters is large. */
const SMALL = { smallCharacters: 2 };

async function replyOf(texts: readonly string[]): Promise<RawReply | undefined> {
  const reply = await streamedReply("text/plain", makePieces(texts).pieces, SMALL);
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
    const reply = await streamedReply("text/plain", pieces, SMALL);
    const body = (reply.ok && reply.value?.body) as Readable;
    await new Promise((resolve) => body.once("close", resolve).destroy());
    expect(state.ended).toBe(true);
  });

  it("cuts off a client that reads nothing", async () => {
    const { pieces, state } = makePieces(["abc", "d", "e"]);
    const reply = await streamedReply("text/plain", pieces, { ...SMALL, stalledMs: 20 });
    const body = (reply.ok && reply.value?.body) as Readable;
    const error = await new Promise((resolve) => body.once("error", resolve));
    expect(String(error)).toContain("reads no more");
    expect(state.ended).toBe(true);
  });

  it("refuses to hold more than a few streams, until one has ended", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 4; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const { pieces, state } = makePieces(["abc", "d"]);
    expect(await streamedReply("text/plain", pieces, SMALL)).toEqual({ ok: false, error: { kind: "unavailable" } });
    expect(state.ended).toBe(true);
    expect((await replyOf(["ab"]))?.body).toBe("ab");
    await textOf(bodies.pop());
    bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    await Promise.all(bodies.map(textOf));
  });

  it("passes on what fails", async () => {
    async function* pieces() {
      yield "abc";
      throw new Error("the database is away");
    }
    const reply = await streamedReply("text/plain", pieces(), SMALL);
    await expect(textOf(reply.ok && reply.value?.body)).rejects.toThrow("away");
  });
});
