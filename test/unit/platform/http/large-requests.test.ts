import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { ok, refuse } from "../../../../services/core/result.ts";
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
  const call = (body: string | object, more: Partial<Asked<Caller>> = {}) =>
    large.carryOut(declare("here"), dialect, {
      ...{ requestId: "r1", method: "POST", path: "/things", params: {}, query: {}, headers: {}, clientAddress: "::1" },
      ...{ caller: { name: "somebody" }, sharer: { key: "somebody", group: "somebody" } },
      body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
      ...more,
    });
  return { call, large, observed, ports, stops: () => stops };
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
  const { call, large, ports } = makeSides((side) => async () => {
    if (side === "here") throw new TakesLong();
    return isStuck ? new Promise(() => {}) : ok("again");
  });
  const waiting = call({ text: "" });
  await vi.waitFor(() => expect(ports).toHaveLength(1));
  const failed = expect(waiting).rejects.toThrow("out of memory");
  ports[0]!.emit("error", new Error("out of memory"));
  ports[0]!.emit("exit", 1);
  await failed;
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
