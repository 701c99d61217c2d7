import { get, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { EventStreams, type StreamLimits } from "../../services/mail-api/event-streams.ts";
import { FeedWatches } from "../../services/mail-api/feed-watches.ts";
import { FullEvents } from "../../services/operations/mail/told-events.ts";
import { TOLD_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { keepForStreams } from "../../services/store/mail/tracking/event-feed.ts";
import { startMailApi, type TestInstance, type TestMailApi } from "../support/mail-api.ts";
import { eventually } from "../support/stack.ts";

interface Frame {
  readonly id?: string;
  readonly event?: string;
  readonly data?: Record<string, unknown>;
}

interface Stream {
  readonly response: IncomingMessage;
  readonly frames: Frame[];
  /** Events, without signs of life. */
  events(): Frame[];
  lastId(): string;
  close(): void;
}

let api: TestMailApi;
let contactId: number;
const open: Stream[] = [];

beforeAll(async () => {
  api = await startMailApi();
  const made = await api.north.call("POST", "/v1/contacto", { email: "ana@stream.test" });
  contactId = made.body.contacto.numid;
});
afterEach(() => {
  for (const stream of open.splice(0)) stream.close();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

function connect(query = "", headers: Record<string, string> = {}, instance: TestInstance = api.north) {
  return new Promise<Stream>((resolve, reject) => {
    const request = get(
      `${api.url}/v1/eventos/stream${query}`,
      { headers: { Authorization: instance.key, Host: instance.host, ...headers } },
      (response) => {
        const frames: Frame[] = [];
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
          const whole = text.split("\n\n");
          text = whole.pop()!;
          frames.push(...whole.map(readFrame));
        });
        response.on("error", () => {});
        const stream: Stream = {
          response,
          frames,
          events: () => frames.filter(({ event }) => event !== undefined),
          lastId: () => frames.findLast(({ id }) => id !== undefined)!.id!,
          close: () => request.destroy(),
        };
        open.push(stream);
        resolve(stream);
      },
    );
    request.on("error", reject);
  });
}

function readFrame(text: string): Frame {
  const fields = new Map(
    text.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  const data = fields.get("data");
  return {
    ...(fields.has("id") ? { id: fields.get("id")! } : {}),
    ...(fields.has("event") ? { event: fields.get("event")! } : {}),
    ...(data === undefined ? {} : { data: JSON.parse(data) }),
  };
}

const happen = (...kinds: readonly ("viewed" | "clicked" | "unsubscribed")[]) =>
  recordEvents(
    api.db,
    kinds.map((kind) => ({ instanceId: api.north.id, contactId, kind, at: new Date() })),
  );

const heard = (stream: Stream, count: number) =>
  eventually(
    async () => stream.events(),
    (events) => events.length >= count,
  );

test("tells what happens from now on, and resumes by the last id without a gap", async () => {
  const first = await connect();
  expect(first.response.headers).toMatchObject({
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
  });
  await eventually(
    async () => first.frames.length,
    (count) => count > 0,
  );
  await happen("viewed", "clicked");
  const [viewed, clicked] = await heard(first, 2);
  expect(viewed).toMatchObject({ event: "vista", data: { evento: "vista", email: "ana@stream.test", reason: null } });
  expect(Number(clicked!.id)).toBe(Number(viewed!.id) + 1);
  first.close();
  await happen("unsubscribed");
  const second = await connect("", { "Last-Event-ID": viewed!.id! });
  const again = await heard(second, 2);
  expect(again.map(({ event }) => event)).toEqual(["click", "desuscripcion"]);
  const third = await connect(`?desde=${viewed!.id}&eventos=desuscripcion`);
  expect((await heard(third, 1)).map(({ event }) => event)).toEqual(["desuscripcion"]);
});

test("nothing is lost and nothing comes twice for a reader that is cut off again and again", async () => {
  const ids: string[] = [];
  let last: string | undefined;
  let isOver = false;
  const writing = (async () => {
    for (let round = 0; round < 30; round++) {
      await happen("viewed", "clicked", "viewed");
      await sleep(20);
    }
    isOver = true;
  })();
  let connection = await connect();
  await eventually(
    async () => connection.frames.length,
    (count) => count > 0,
  );
  last = connection.lastId();
  const from = Number(last);
  await eventually(
    async () => {
      ids.push(...connection.events().map(({ id }) => id!));
      if (connection.frames.length > 0) last = connection.lastId();
      connection.close();
      connection = await connect("", { "Last-Event-ID": last! });
      return isOver;
    },
    (over) => over,
  );
  await writing;
  await eventually(
    async () => connection.lastId(),
    (id) => Number(id) >= from + ids.length && connection.events().length + ids.length >= 85,
  );
  ids.push(...connection.events().map(({ id }) => id!));
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.map(Number)).toEqual(Array.from({ length: ids.length }, (_, index) => from + 1 + index));
});

test.each([
  ["?eventos=nada", {}, 400],
  ["?desde=x", {}, 400],
  ["?desde=999999999", {}, 400],
  ["", { "Last-Event-ID": "x" }, 400],
  ["", { "Last-Event-ID": "999999999999" }, 400],
  ["", { Authorization: "wrong" }, 403],
  ["?campana_id=999999999", {}, 404],
])("%s %j is refused", async (query, headers, status) => {
  expect((await connect(query, headers as Record<string, string>)).response.statusCode).toBe(status);
});

test.each([
  ["?desde=999999999", {}, "desde invalido"],
  ["", { "Last-Event-ID": "999999999999" }, "Last-Event-ID invalido"],
])("%s %j is named", async (query, headers, on) => {
  const answer = await api.north.call(
    "GET",
    `/v1/eventos/stream${query}`,
    undefined,
    headers as Record<string, string>,
  );
  expect(answer.body).toEqual({ status: "err", on });
});

test("another instance hears nothing of it, and so many at a time are enough", async () => {
  const other = await connect("", {}, api.south);
  await happen("viewed");
  const mine = await Promise.all([connect(), connect(), connect(), connect()]);
  expect(mine.map(({ response }) => response.statusCode)).toEqual([200, 200, 200, 200]);
  const fifth = await connect();
  expect([fifth.response.statusCode, fifth.response.headers["retry-after"]]).toEqual([429, "3"]);
  mine[0]!.close();
  await eventually(
    async () => (await connect()).response.statusCode,
    (status) => status === 200,
  );
  await happen("clicked");
  await heard(mine[1]!, 1);
  expect(other.events()).toEqual([]);
});

test("what is kept no longer is told as a gap", async () => {
  await api.db("webhook_events").where({ instance_id: api.north.id }).delete();
  const stream = await connect("?desde=0");
  const [gap] = await heard(stream, 1);
  expect(gap).toMatchObject({ event: "hueco", data: { desde: 1 } });
  expect(Number(gap!.id)).toBe((gap!.data as { hasta: number }).hasta);
});

function openStreams(limits: Partial<StreamLimits>): { readonly streams: EventStreams; readonly ends: string[] } {
  const ends: string[] = [];
  const streams = new EventStreams(
    {
      db: api.db,
      clock: { nowMs: () => Date.now() },
      fullEvents: new FullEvents(api.keyRing),
      observe: (observation) => {
        if (observation.kind === "event-stream-ended") ends.push(observation.why);
      },
    },
    limits,
  );
  return { streams, ends };
}

const EVERYTHING = { kinds: Object.values(TOLD_KINDS), campaigns: null, condition: null, after: undefined };

test("so many of all instances at a time are enough, although they come at the same moment", async () => {
  const { streams } = openStreams({ most: 2 });
  const asked = [api.north, api.south, api.north, api.south];
  const opened = await Promise.all(asked.map((instance) => streams.open(instance, EVERYTHING)));
  expect(opened.map((stream) => stream.ok || stream.error.kind)).toEqual([true, true, "unavailable", "unavailable"]);
  for (const stream of opened) if (stream.ok) stream.value.destroy();
  const after = await streams.open(api.north, EVERYTHING);
  expect(after.ok).toBe(true);
  await streams.stop();
});

test("a reader that waits hears at once of what a reader who comes has found", async () => {
  await keepForStreams(api.db, api.north.id);
  const watches = new FeedWatches(api.db);
  const first = await watches.watch(api.north.id);
  const from = first.position;
  const hears = first.waitBeyond(from, 20_000, new AbortController().signal);
  await happen("viewed");
  // One who comes all the time finds it before the next look does.
  for (let found = from; found === from; ) {
    const next = await watches.watch(api.north.id);
    found = next.position;
    next.end();
  }
  expect(await Promise.race([hears, sleep(1_000, "nothing yet")])).toBe(true);
  first.end();
  await watches.stop();
});

test("a reader that takes nothing is cut off, and others go on", async () => {
  const { streams, ends } = openStreams({ waitingOctets: 1_024, unreadMs: 200, heartbeatMs: 50 });
  const slow = await streams.open(api.north, EVERYTHING);
  const quick = await streams.open(api.north, EVERYTHING);
  if (!slow.ok || !quick.ok) throw new Error("refused");
  let text = "";
  quick.value.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  await happen(...Array.from({ length: 50 }, () => "viewed" as const));
  await eventually(
    async () => ends,
    (found) => found.length === 1,
  );
  expect(ends).toEqual(["slow"]);
  expect(slow.value.destroyed).toBe(true);
  await eventually(
    async () => text,
    (found) => found.split("event: vista").length === 51 && found.includes("\n\n:\nid: "),
  );
  await streams.stop();
  expect(ends).toEqual(["slow", "reader"]);
});

test("a stream ends after its time, properly", async () => {
  const { streams, ends } = openStreams({ lifeMs: 50 });
  const stream = await streams.open(api.north, EVERYTHING);
  if (!stream.ok) throw new Error("refused");
  let isWhole = false;
  stream.value.on("end", () => {
    isWhole = true;
  });
  stream.value.resume();
  await eventually(
    async () => ends,
    (found) => found.length === 1,
  );
  await expect.poll(() => isWhole).toBe(true);
  expect(ends).toEqual(["life"]);
  await streams.stop();
});
