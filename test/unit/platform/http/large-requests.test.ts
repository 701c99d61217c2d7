import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { ok, refuse } from "../../../../services/core/result.ts";
import { type Aside, FairTurns } from "../../../../services/platform/fair-turns.ts";
import type { Asked } from "../../../../services/platform/http/carry-out.ts";
import type { Dialect } from "../../../../services/platform/http/dialect.ts";
import { type AnyEndpoint, endpoint, RawReply } from "../../../../services/platform/http/endpoint.ts";
import { LargeRequests, serveLargeRequests, TakesLong } from "../../../../services/platform/http/large-requests.ts";
import type { Observation } from "../../../../services/platform/observability/observation.ts";

interface Caller {
  readonly name: string;
}

const dialect = { judgedFields: new Set<string>(), queryFields: true } as unknown as Dialect<Caller>;
const LARGE = 100_000;

/** Both sides in one thread, with the port between them that threads have. */
function makeSides(act: (side: "here" | "there") => AnyEndpoint<Caller>["act"]) {
  const observed: Observation[] = [];
  const ports: MessagePort[] = [];
  const declare = (side: "here" | "there") =>
    endpoint<Caller, Record<never, never>, z.ZodType, z.ZodType>({
      method: "POST",
      path: "/things",
      summary: "Does what the test wants",
      fields: z.object({ text: z.string().max(LARGE) }),
      reply: z.unknown(),
      act: act(side),
    });
  let stops = 0;
  const open = () => {
    const { port1, port2 } = new MessageChannel();
    ports.push(port1);
    opened.push(port1);
    const stop = async () => {
      stops += 1;
    };
    const start = async () => ({ dialect, endpoints: [declare("there")], stop });
    void serveLargeRequests(port2, start).then(() => port1.emit("exit", 0));
    return port1 as unknown as Worker;
  };
  const large = new LargeRequests(open, (observation) => observed.push(observation));
  const call = (body: string | object, aside: Aside = (wait) => wait()) => {
    const asked: Asked<Caller> = {
      ...{ requestId: "r1", method: "POST", path: "/things", params: {}, query: {}, headers: {}, clientAddress: "::1" },
      ...{ caller: { name: "somebody" }, sharer: { key: "somebody", group: "somebody" } },
      body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
    };
    return large.carryOut(declare("here"), dialect, asked, { aside });
  };
  return { call, large, observed, ports, stops: () => stops };
}

function openPromise<T>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

const opened: MessagePort[] = [];
afterEach(() => {
  for (const port of opened.splice(0)) port.close();
});

const tellSide = (side: "here" | "there") => async () => ok({ side });

test("what is small is carried out here, and no other thread begins", async () => {
  const { call, ports, large } = makeSides(tellSide);
  expect(await call({ text: "small" })).toEqual(ok({ side: "here" }));
  expect(ports).toHaveLength(0);
  await large.stop();
});

test("what an operation reads of a large body by itself is judged as bodies are: others go on between two judgements", async () => {
  const order: string[] = [];
  const judgement = (name: string) => () => {
    setTimeout(() => order.push(`after ${name}`));
    const end = performance.now() + 30;
    while (performance.now() < end);
    order.push(name);
  };
  const { call, large } = makeSides((side) => async ({ judge }) => {
    await Promise.all(["first", "second"].map((name) => judge(judgement(name))));
    return ok({ side });
  });
  expect(await call({ text: "x".repeat(LARGE) })).toEqual(ok({ side: "there" }));
  expect(order.slice(0, 3)).toEqual(["first", "after first", "second"]);
  await large.stop();
});

test("a large body goes over, and so does what is found to take long", async () => {
  const { call, ports, large, stops } = makeSides((side) => async ({ caller, fields }) => {
    if (side === "here") throw new TakesLong();
    return ok({ side, caller, characters: (fields as { text: string }).text.length });
  });
  const caller = { name: "somebody" };
  expect(await call({ text: "x".repeat(LARGE) })).toEqual(ok({ side: "there", caller, characters: LARGE }));
  expect(await call({ text: "small" })).toEqual(ok({ side: "there", caller, characters: 5 }));
  expect(ports).toHaveLength(1);
  await large.stop();
  expect(stops()).toBe(1);
});

test("large bodies are judged as small ones are", async () => {
  const { call, large } = makeSides(tellSide);
  expect(await call({ text: "x".repeat(LARGE + 1) })).toMatchObject({ ok: false, error: { kind: "invalid-field" } });
  expect(await call("{".repeat(LARGE))).toEqual(refuse({ kind: "malformed-json" }));
  expect(await call(Buffer.alloc(LARGE, 0xff).toString("latin1"))).toEqual(refuse({ kind: "malformed-json" }));
  await large.stop();
});

test("text, octets and streams arrive as what they are", async () => {
  const replies = [
    new RawReply("text/plain", "words", 201, { "X-Words": "1" }),
    new RawReply("application/octet-stream", Buffer.from([0, 255])),
    new RawReply("text/plain", Readable.from([Buffer.from("piece by "), Buffer.from("piece")])),
  ];
  const { call, large } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    return ok(replies.shift()!);
  });
  const next = async () => {
    const outcome = await call({ text: "" });
    if (!outcome.ok) throw new Error(outcome.error.kind);
    return outcome.value as RawReply;
  };
  expect(await next()).toEqual(new RawReply("text/plain", "words", 201, { "X-Words": "1" }));
  expect((await next()).body).toEqual(Buffer.from([0, 255]));
  expect(await text((await next()).body as Readable)).toBe("piece by piece");
  await large.stop();
});

test("a stream that is not wanted any more ends where it comes from", async () => {
  let source: Readable | undefined;
  const { call, large } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    source = new Readable({ read() {} });
    source.push(Buffer.from("begun"));
    return ok(new RawReply("text/plain", source));
  });
  const outcome = await call({ text: "" });
  const { body } = (outcome as { value: RawReply }).value;
  (body as Readable).destroy();
  await vi.waitFor(() => expect(source!.closed).toBe(true));
  expect(source!.destroyed).toBe(true);
  await large.stop();
});

test("a stream breaks off when the other thread ends", async () => {
  const { call, large, ports } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    return ok(new RawReply("text/plain", new Readable({ read() {} })));
  });
  const outcome = await call({ text: "" });
  const reading = text((outcome as { value: RawReply }).value.body as Readable);
  const broken = expect(reading).rejects.toThrow("has ended");
  ports[0]!.emit("exit", 1);
  await broken;
  await large.stop();
});

test("an error there is told to the operator here, and to the client as what it is", async () => {
  const { call, large, observed } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    throw Object.assign(new Error("connection lost"), { code: "ECONNREFUSED" });
  });
  expect(await call({ text: "" })).toEqual(refuse({ kind: "unavailable" }));
  expect(observed).toMatchObject([{ kind: "database-away", requestId: "r1", method: "POST", path: "/things" }]);
  expect(observed[0]).toHaveProperty("err", expect.any(Error));
  await large.stop();
});

test("when the other thread ends, those who wait are told, and the next begins another one", async () => {
  let isStuck = true;
  const begun = openPromise<void>();
  const { call, large, ports, observed } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    begun.resolve();
    return isStuck ? new Promise(() => {}) : ok("again");
  });
  const waiting = call({ text: "" });
  await begun.promise;
  ports[0]!.emit("error", new Error("out of memory"));
  ports[0]!.emit("exit", 1);
  expect(await waiting).toEqual(refuse({ kind: "unavailable" }));
  expect(observed).toMatchObject([{ kind: "large-requests-failed", err: { message: "out of memory" } }]);
  isStuck = false;
  expect(await call({ text: "" })).toEqual(ok("again"));
  expect(ports).toHaveLength(2);
  await large.stop();
});

test("an answer that cannot leave the thread is a failure of its request alone", async () => {
  const { call, large, observed } = makeSides((side) => async ({ fields }) => {
    const { text } = fields as { text: string };
    return ok({ side, characters: text.length, more: text.startsWith("y") ? () => "a function" : undefined });
  });
  expect(await call({ text: "y".repeat(LARGE) })).toEqual(refuse({ kind: "internal" }));
  expect(observed).toMatchObject([{ kind: "request-failed", level: "error", requestId: "r1" }]);
  expect(await call({ text: "x".repeat(LARGE) })).toMatchObject(ok({ side: "there", characters: LARGE }));
  await large.stop();
});

test("what waits for somebody else there gives its turn here to others, and goes on in a turn again", async () => {
  const turns = new FairTurns({ atOnce: 1, perClient: 1 });
  const told = openPromise<string>();
  const { call, large } = makeSides((side) => async ({ aside }) => {
    if (side === "here") throw new TakesLong();
    return ok(await aside(() => told.promise));
  });
  const first = turns.run("a", (aside) => call({ text: "" }, aside));
  const between = openPromise<void>();
  const second = turns.run("b", () => between.promise);
  let isAnswered = false;
  void first.then(() => {
    isAnswered = true;
  });
  told.resolve("the page");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(isAnswered).toBe(false);
  between.resolve();
  await second;
  expect(await first).toEqual(ok("the page"));
  await large.stop();
});

test("what waits aside when the other thread ends comes back to its turn, and is answered", async () => {
  const turns = new FairTurns({ atOnce: 1, perClient: 1 });
  let left = 0;
  const { call, large, ports } = makeSides((side) => async ({ aside }) => {
    if (side === "here") throw new TakesLong();
    return ok(await aside(() => new Promise(() => {})));
  });
  const first = turns.run("a", (aside) =>
    call({ text: "" }, (wait) => {
      left += 1;
      return aside(wait);
    }),
  );
  await vi.waitFor(() => expect(left).toBe(1));
  ports[0]!.emit("exit", 1);
  expect(await first).toEqual(refuse({ kind: "unavailable" }));
  expect(await turns.run("b", async () => "a turn")).toBe("a turn");
  await large.stop();
});
