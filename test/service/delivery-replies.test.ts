import { describe, expect, test, vi } from "vitest";
import { MOST_IN_DOUBT } from "../../services/delivery/troubled-destinations.ts";
import { openSmtpSession } from "../../services/platform/smtp/client.ts";
import {
  accept,
  DOMAIN,
  database,
  eventually,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  TIMEOUTS,
  untilSent,
} from "../support/delivery.ts";
import type { startSmtpSink } from "../support/smtp-sink.ts";

setUpDelivery();

describe("replies", () => {
  test("some recipients of a server are refused, the others get it", async () => {
    const far = await sink({
      onRcptTo: ({ address }, _session, done) =>
        done(/^r\d*[05]@/.test(address) ? Object.assign(new Error("5.1.1 no such user"), { responseCode: 550 }) : null),
    });
    run(makeWorker(routes({ "a.example.net": far.port })));
    const batch = await untilSent(await accept(numbered(50, "a.example.net")));
    expect(batch?.refused).toBe(10);
    expect(far.messages).toHaveLength(40);
    const events = await database.db("events").where({ kind: 4 }).select("detail");
    expect(events).toHaveLength(10);
    expect(events[0].detail).toMatchObject({ reason: "userunknown" });
  });

  test("a server that answers more slowly with each refusal is left for a new session, which knows of none", async () => {
    const far = await sink({
      onRcptTo: ({ address }, session, done) => {
        const seen = session as { refusals?: number };
        if (!/^r([0-9]|1[0-9])@/.test(address)) return done(null);
        seen.refusals = (seen.refusals ?? 0) + 1;
        const refuse = () => done(Object.assign(new Error("5.1.1 no such user"), { responseCode: 550 }));
        return void setTimeout(refuse, seen.refusals < 9 ? 0 : 60_000);
      },
    });
    // Time passes slowly, so that none of the first refusals is a slow one.
    const now = performance.now.bind(performance);
    const startMs = now();
    const time = vi.spyOn(performance, "now").mockImplementation(() => startMs + (now() - startMs) / 10);
    stops.push(() => time.mockRestore());
    run(makeWorker(routes({ "a.example.net": far.port })));
    const batch = await untilSent(await accept(numbered(25, "a.example.net")));
    expect(batch?.refused).toBe(20);
    expect(far.messages).toHaveLength(5);
    expect(far.sessions()).toBe(3);
  });

  test("a domain that does not exist bounces at once", async () => {
    run(makeWorker(routes({})));
    expect((await untilSent(await accept(numbered(5, "gone.example.net"))))?.refused).toBe(5);
  });

  test("a server without TLS that works, and one whose handshake fails, both get the mail", async () => {
    const clear = await sink();
    const broken = await sink({
      disabledCommands: ["AUTH"],
      minVersion: "TLSv1.3",
      ciphers: "TLS_AES_128_GCM_SHA256",
      sigalgs: "ed25519",
    });
    run(makeWorker(routes({ "a.example.net": clear.port, "b.example.net": broken.port })));
    await untilSent(await accept(["one@a.example.net", "one@b.example.net"]));
    expect(clear.messages).toHaveLength(1);
    expect(broken.messages).toHaveLength(1);
    expect(broken.sessions()).toBe(2);
  });
});

/** Who refuses some recipients with these words, or says nothing to them, and counts whom it was asked to take. */
async function choosy(refused: RegExp, reply: string) {
  const asked: string[] = [];
  const [, code, words] = /^(\d{3}) (.*)$/.exec(reply) ?? [];
  const far = await sink({
    onRcptTo: ({ address }, _session, done) => {
      asked.push(address);
      if (!refused.test(address)) done(null);
      else if (code !== undefined) done(Object.assign(new Error(words), { responseCode: Number(code) }));
    },
  });
  return { far, asked };
}

describe("a refusal that sounds like us, once there is a recipient", () => {
  test.each([
    "450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages",
    "451 4.7.1 user over rate limit",
    "421 4.7.0 [TSS04] Messages temporarily deferred",
    "421 4.7.0 go away",
    "550 5.7.1 Service unavailable; client host blocked using zen.spamhaus.example",
    "nothing",
  ])("holds up nobody else, while it is of one alone: %s", async (reply) => {
    const { far, asked } = await choosy(/^(first|fourth)@/, reply);
    const timeouts = { ...TIMEOUTS, ...(reply === "nothing" ? { commandMs: 5_000 } : {}) };
    run(makeWorker(routes({ "a.example.net": far.port }), {}, [600], { timeouts }));
    const others = ["second", "third", "fifth"].map((name) => `${name}@a.example.net`);
    const all = ["first@a.example.net", ...others.slice(0, 2), "fourth@a.example.net", ...others.slice(2)];
    await accept(all);
    await eventually(
      async () => recipientsOf(far),
      ({ length }) => length === others.length,
    );
    expect(recipientsOf(far).sort()).toEqual(others.toSorted());
    expect(await database.db("destination_backoffs")).toEqual([]);
    expect(asked).toEqual(all);
  });

  test("of many who come first holds the others up for a few attempts", async () => {
    const { far } = await choosy(/^r(\d|1[01])@/, "421 4.7.0 go away");
    run(makeWorker(routes({ "a.example.net": far.port }), {}, [1]));
    await accept(numbered(15, "a.example.net"));
    await eventually(
      () => database.db("deliveries").where({ state: "queued" }),
      ({ length }) => length === 12,
    );
    expect(recipientsOf(far)).toHaveLength(3);
  });

  test("of all who are asked leaves those who are not as they were", async () => {
    const { far, asked } = await choosy(/./, "421 4.7.0 go away");
    run(makeWorker(routes({ "a.example.net": far.port }), {}, [600]));
    await accept(numbered(20, "a.example.net"));
    await eventually(
      async () => asked.length,
      (count) => count > 0,
    );
    await eventually(
      () => database.db("partitions").where({ state: "ready" }).whereNull("lease_owner"),
      ({ length }) => length === 1,
    );
    expect(asked).toEqual(numbered(MOST_IN_DOUBT, "a.example.net"));
    expect(await database.db("deliveries").where({ attempts: 0, state: "queued" })).toHaveLength(20 - MOST_IN_DOUBT);
    expect(await database.db("destination_backoffs")).toHaveLength(1);
  });

  test("of all who are asked is that of the others when their time is over", async () => {
    const { far, asked } = await choosy(/./, "421 4.7.0 go away");
    run(makeWorker(routes({ "a.example.net": far.port }), {}, [600], { giveUpHours: 0.000_001 }));
    expect((await untilSent(await accept(numbered(20, "a.example.net"))))?.refused).toBe(20);
    expect(asked).toEqual(numbered(MOST_IN_DOUBT, "a.example.net"));
  });

  test("of each at first sight, as by a greylist, is met once by each", async () => {
    const seen = new Set<string>();
    const asked: string[] = [];
    const far = await sink({
      onRcptTo: ({ address }, _session, done) => {
        asked.push(address);
        done(seen.has(address) ? null : Object.assign(new Error("4.7.0 greylisted"), { responseCode: 421 }));
        seen.add(address);
      },
    });
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(40, "a.example.net")));
    expect(recipientsOf(far).sort()).toEqual(numbered(40, "a.example.net").sort());
    expect(asked).toHaveLength(2 * 40);
  });
});

describe("8-bit octets", () => {
  const client = { hostname: "localhost", timeouts: TIMEOUTS };
  const envelope = { mailFrom: `a@${DOMAIN}`, rcptTo: ["b@example.net"], needsSmtputf8: false };
  const eightBit = Buffer.from("Subject: x\r\n\r\nñ\r\n");
  const sevenBit = Buffer.from("Subject: x\r\n\r\nn\r\n");

  async function open(options: Parameters<typeof startSmtpSink>[0]) {
    const { port } = await sink(options);
    const session = await openSmtpSession({ host: "127.0.0.1", port, name: "localhost", tls: "never" }, client);
    if (!session.ok) throw new Error("no session");
    stops.push(() => session.value.close());
    return session.value;
  }

  test("are announced to a server that offers 8BITMIME, and only they", async () => {
    const announced: unknown[] = [];
    const session = await open({
      onMailFrom: ({ args }, _session, done) => {
        announced.push(args ? args.BODY : undefined);
        done();
      },
    });
    expect((await session.send(envelope, eightBit)).ok).toBe(true);
    expect((await session.send(envelope, sevenBit)).ok).toBe(true);
    expect(announced).toEqual(["8BITMIME", undefined]);
  });

  test("are kept from a server that does not, which still gets the rest", async () => {
    const session = await open({ hide8BITMIME: true });
    expect(await session.send(envelope, eightBit)).toMatchObject({
      ok: false,
      error: { kind: "unsuited", reply: { code: 550, enhancedStatus: "5.6.3" } },
    });
    expect((await session.send(envelope, sevenBit)).ok).toBe(true);
  });
});
