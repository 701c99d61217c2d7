import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { RawReply } from "../../../../services/platform/http/endpoint.ts";
import type { StreamFor } from "../../../../services/platform/http/stream-places.ts";
import { exportReply, streamedReply } from "../../../../services/platform/http/streamed-reply.ts";

/** What makes pieces, how often it was asked to, and whether what it made was ended. */
function piecesOf(texts: readonly string[]) {
  const state = { made: 0, ended: false };
  async function* makePieces() {
    state.made += 1;
    state.ended = false;
    try {
      yield* texts;
    } finally {
      state.ended = true;
    }
  }
  return { makePieces, state };
}

const A: StreamFor = { sharer: { key: "a", group: "a" }, holds: "connection" };

/** Of more than two characters is large; nobody waits for a place. */
const SMALL = { smallCharacters: 2, patienceMs: 0 };

async function replyOf(texts: readonly string[], whose = A): Promise<RawReply | undefined> {
  const reply = await streamedReply("text/plain", piecesOf(texts).makePieces, whose, SMALL);
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
    const { makePieces, state } = piecesOf(["abc", "d", "e"]);
    const reply = await streamedReply("text/plain", makePieces, A, SMALL);
    const body = (reply.ok && reply.value?.body) as Readable;
    await new Promise((resolve) => body.once("close", resolve).destroy());
    expect(state.ended).toBe(true);
  });

  it("cuts off a client that reads for too long at whatever pace", async () => {
    const texts = Array.from({ length: 100 }, () => "x".repeat(16 * 1024));
    const reply = await streamedReply("text/plain", piecesOf(texts).makePieces, A, { ...SMALL, deadlineMs: 150 });
    const body = (reply.ok && reply.value?.body) as Readable;
    const reading = async () => {
      for await (const _ of body) await sleep(20);
    };
    await expect(reading()).rejects.toThrow("too long");
  });

  it("cuts no character in two", async () => {
    const text = `a${"ñ😀".repeat(20_000)}`;
    const body = (await replyOf([text]))?.body as Readable;
    expect(Buffer.concat(await body.toArray()).toString()).toBe(text);
  });

  it("refuses a caller's third stream and lets others go on, until one has ended", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 2; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const { makePieces, state } = piecesOf(["abc", "d"]);
    expect(await streamedReply("text/plain", makePieces, A, SMALL)).toEqual({
      ok: false,
      error: { kind: "rate-limited", retryAfterSeconds: 5 },
    });
    expect(state.ended).toBe(true);
    expect((await replyOf(["ab"]))?.body).toBe("ab");
    expect(await textOf((await replyOf(["abc", "d"], { ...A, sharer: { key: "b", group: "b" } }))?.body)).toBe("abcd");
    await textOf(bodies.pop());
    bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    await Promise.all(bodies.map(textOf));
  });

  it("holds a few connections at a time, and as much memory beside them", async () => {
    const bodies: Readable[] = [];
    const open = async (key: string, holds: StreamFor["holds"], group = key) =>
      bodies.push((await replyOf(["abc", "d"], { sharer: { key, group }, holds }))?.body as Readable);
    for (const key of ["a", "a", "b", "b", "c", "c"]) await open(key, "connection");
    const { makePieces } = piecesOf(["abc", "d"]);
    const refused = await streamedReply(
      "text/plain",
      makePieces,
      { sharer: { key: "d", group: "d" }, holds: "connection" },
      SMALL,
    );
    expect(refused).toEqual({ ok: false, error: { kind: "unavailable" } });
    await open("d", "memory");
    await Promise.all(bodies.map(textOf));
    expect(await textOf((await replyOf(["abc", "d"]))?.body)).toBe("abcd");
  });

  it("holds nothing while it waits for a place, and begins anew when there is one", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 2; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const { makePieces, state } = piecesOf(["abc", "d"]);
    const waiting = streamedReply("text/plain", makePieces, A, { ...SMALL, patienceMs: 10_000 });
    await expect.poll(() => state).toEqual({ made: 1, ended: true });
    expect((await replyOf(["ab"]))?.body).toBe("ab");
    await textOf(bodies.pop());
    const reply = await waiting;
    expect(state).toEqual({ made: 2, ended: false });
    bodies.push((reply.ok && reply.value?.body) as Readable);
    expect(await Promise.all(bodies.map(textOf))).toEqual(["abcd", "abcd"]);
  });

  it("keeps a place that became free for who waited, and gives it back when the reply has become small or fails", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 2; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const ends: (() => AsyncGenerator<string>)[] = [
      async function* () {
        yield "ab";
      },
      async function* () {
        yield "a";
        throw new Error("the database is away");
      },
      piecesOf(["abc", "d"]).makePieces,
    ];
    const settled: string[] = [];
    const waiting = ends.map((makeAgain, index) => {
      const makings = [piecesOf(["abc", "d"]).makePieces, makeAgain];
      const options = { ...SMALL, patienceMs: 10_000 };
      const reply = streamedReply("text/plain", () => makings.shift()!(), A, options);
      return reply.finally(() => settled.push(`${index}`));
    });
    const failing = expect(waiting[1]).rejects.toThrow("away");
    await sleep(100);
    expect(settled).toEqual([]);
    await textOf(bodies.pop());
    expect(await streamedReply("text/plain", piecesOf(["abc", "d"]).makePieces, A, SMALL)).toMatchObject({ ok: false });
    expect(await waiting[0]).toMatchObject({ ok: true, value: { body: "ab" } });
    await failing;
    const last = await waiting[2]!;
    bodies.push((last.ok && last.value?.body) as Readable);
    expect(await Promise.all(bodies.map(textOf))).toEqual(["abcd", "abcd"]);
    expect(settled).toEqual(["0", "1", "2"]);
  });

  it("refuses at once what is not to wait, also while others of the caller do", async () => {
    const bodies: Readable[] = [];
    for (let stream = 0; stream < 2; stream += 1) bodies.push((await replyOf(["abc", "d"]))?.body as Readable);
    const ask = (patienceMs: number) =>
      streamedReply("text/plain", piecesOf(["abc", "d"]).makePieces, A, { ...SMALL, patienceMs });
    const settled: string[] = [];
    const waiting = ask(240_000).finally(() => settled.push("waited"));
    await sleep(100);
    const refused = await ask(0).finally(() => settled.push("at once"));
    expect(refused).toMatchObject({ ok: false });
    await textOf(bodies.pop());
    const reply = await waiting;
    expect(settled).toEqual(["at once", "waited"]);
    bodies.push((reply.ok && reply.value?.body) as Readable);
    expect(await ask(100)).toMatchObject({ ok: false });
    expect(await Promise.all(bodies.map(textOf))).toEqual(["abcd", "abcd"]);
  });

  it("gives places that become free to those who wait by turns, however many one of them has waiting", async () => {
    const of = (key: string): StreamFor => ({ sharer: { key, group: key }, holds: "connection" });
    const ask = async (key: string) => {
      const { makePieces } = piecesOf(["abc", "d"]);
      const reply = await streamedReply("text/plain", makePieces, of(key), { ...SMALL, patienceMs: 10_000 });
      return (reply.ok && reply.value?.body) as Readable;
    };
    const taken = await Promise.all(["c", "c", "d", "d", "e", "e"].map(ask));
    const begun: string[] = [];
    const waiting = ["a", "a", "a", "a", "a", "b"].map((key) =>
      ask(key).then((body) => {
        begun.push(key);
        return body;
      }),
    );
    await sleep(100);
    await Promise.all(taken.splice(0, 2).map(textOf));
    await expect.poll(() => begun.toSorted()).toEqual(["a", "b"]);
    await Promise.all([...taken, ...waiting].map(async (body) => textOf(await body)));
  });

  it("begins two replies of a caller at a time, and the others when these are there", async () => {
    const begun: (() => void)[] = [];
    async function* pieces() {
      await new Promise<void>((go) => begun.push(go));
      yield "ab";
    }
    const begin = (whose: StreamFor) => streamedReply("text/plain", pieces, whose, SMALL);
    const replies = [begin({ ...A, sharer: { key: "b", group: "b" } }), ...Array.from({ length: 5 }, () => begin(A))];
    for (const asked of [3, 4, 5, 6]) {
      await expect.poll(() => begun.length).toBe(asked);
      begun[asked - 2]!();
    }
    for (const go of begun) go();
    for (const reply of replies) expect(await reply).toMatchObject({ ok: true, value: { body: "ab" } });
  });

  it("leaves places to others than a group, however many callers that has", async () => {
    const bodies: Readable[] = [];
    const of = (key: string, group = key): StreamFor => ({ sharer: { key, group }, holds: "connection" });
    const open = async (whose: StreamFor) => bodies.push((await replyOf(["abc", "d"], whose))?.body as Readable);
    for (const key of ["a", "b", "c"]) await open(of(key, "reseller"));
    const { makePieces } = piecesOf(["abc", "d"]);
    expect(await streamedReply("text/plain", makePieces, of("d", "reseller"), SMALL)).toMatchObject({
      error: { kind: "rate-limited" },
    });
    await open(of("e"));
    await Promise.all(bodies.map(textOf));
    expect(await textOf((await replyOf(["abc", "d"], of("d", "reseller")))?.body)).toBe("abcd");
  });

  it("passes on what fails", async () => {
    async function* pieces() {
      yield "abc";
      throw new Error("the database is away");
    }
    const reply = await streamedReply("text/plain", pieces, A, SMALL);
    await expect(textOf(reply.ok && reply.value?.body)).rejects.toThrow("away");
  });
});

describe("exportReply", () => {
  const bodyOf = (reply: ReturnType<typeof exportReply>) => (reply.ok ? reply.value.body : undefined) as Readable;
  const ended = (body: Readable) => new Promise((resolve) => body.once("close", resolve).destroy());

  it("is a file, whatever its length", async () => {
    const reply = exportReply("of ñandú", piecesOf(["a", "", "ñ"]).makePieces, "a");
    expect(reply.ok && reply.value.headers).toEqual({ "Content-Disposition": 'attachment; filename="of__and_.csv"' });
    expect(await textOf(bodyOf(reply))).toBe("añ");
  });

  it("makes nothing before somebody reads", async () => {
    let made = 0;
    async function* pieces() {
      made += 1;
      yield "abc";
    }
    await ended(bodyOf(exportReply("x", pieces, "a")));
    expect(made).toBe(0);
  });

  it("counts from the beginning to the end of the making, which hears when the client has gone", async () => {
    const makings: { signal: AbortSignal; finish: () => void }[] = [];
    const open = () =>
      exportReply(
        "x",
        async function* (signal) {
          yield "a";
          await new Promise<void>((finish) => makings.push({ signal, finish }));
        },
        "a",
      );
    const bodies = [bodyOf(open()), bodyOf(open())];
    const refused = { ok: false, error: { kind: "rate-limited", retryAfterSeconds: 5 } };
    expect(open()).toEqual(refused);
    for (const body of bodies) body.resume();
    await expect.poll(() => makings.length).toBe(2);
    expect(makings[0]!.signal.aborted).toBe(false);
    const closed = ended(bodies[0]!);
    await expect.poll(() => makings[0]!.signal.aborted).toBe(true);
    expect(open()).toEqual(refused);
    makings[0]!.finish();
    await closed;
    await ended(bodyOf(open()));
    makings[1]!.finish();
    await new Promise((resolve) => bodies[1]!.once("close", resolve));
  });

  it("refuses others too while there are eight, and cuts off who does not read", async () => {
    const open = (callerKey: string) => exportReply("x", piecesOf(["abc"]).makePieces, callerKey, 100);
    const bodies = ["a", "a", "b", "b", "c", "c", "d", "d"].map((callerKey) => bodyOf(open(callerKey)));
    expect(open("e")).toEqual({ ok: false, error: { kind: "unavailable" } });
    const errors = await Promise.all(bodies.map((body) => new Promise((resolve) => body.once("error", resolve))));
    expect(String(errors[7])).toContain("too long");
    const again = open("e");
    expect(again.ok).toBe(true);
    await ended(bodyOf(again));
  });
});
