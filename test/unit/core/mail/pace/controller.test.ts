import { describe, expect, test } from "vitest";
import { draw, rateInForce, UNPINNED } from "../../../../../services/core/mail/pace/allowance.ts";
import {
  FORGET_MS,
  isUntaught,
  learn,
  type PaceEvidence,
  type PaceMemory,
  UNTAUGHT,
} from "../../../../../services/core/mail/pace/controller.ts";
import { RecentCount } from "../../../../../services/core/mail/pace/recent-count.ts";
import { simulate } from "../../../../support/pace-model.ts";
import { fewSessions, greylisting, leaky, windowed } from "../../../../support/pace-providers.ts";

const nothing: PaceEvidence = {
  nowMs: 0,
  triedPerHour: 0,
  acceptedPerHour: 0,
  joiningPerHour: 0,
  sessions: 0,
  signals: [],
};
const refused = (nowMs: number, changes: Partial<PaceEvidence["signals"][number]> = {}): PaceEvidence => ({
  ...nothing,
  nowMs,
  triedPerHour: 1_000,
  acceptedPerHour: 1_000,
  sessions: 9,
  signals: [{ concerns: "rate", waitSeconds: undefined, messages: 1, ageMs: 0, ...changes }],
});
const at = (nowMs: number, triedPerHour: number): PaceEvidence => ({ ...nothing, nowMs, triedPerHour, sessions: 9 });

describe("a reply that wants less", () => {
  test("halves the rate, once for all replies to what was on its way", () => {
    const first = learn(UNTAUGHT, refused(1_000));
    expect(first.ratePerHour).toBe(500);
    expect(learn(first, refused(2_000)).ratePerHour).toBe(500);
    expect(learn(first, refused(20_000)).ratePerHour).toBe(250);
    // A far side that is slow to refuse says so long after.
    expect(learn(first, refused(60_000, { ageMs: 55_000 })).ratePerHour).toBe(500);
  });

  test("is waited for as long as it says, and a little while where it does not", () => {
    expect(learn(UNTAUGHT, refused(1_000, { waitSeconds: 300 })).waitsUntilMs).toBe(301_000);
    expect(learn(UNTAUGHT, refused(1_000)).waitsUntilMs).toBe(16_000);
    const waiting = learn(UNTAUGHT, refused(1_000, { waitSeconds: 300 }));
    expect(learn(waiting, refused(2_000)).waitsUntilMs).toBe(301_000);
  });

  test("of connections, or of messages of a connection, changes that one", () => {
    const sessions = learn(UNTAUGHT, refused(1_000, { concerns: "connections" }));
    expect(sessions).toMatchObject({ ratePerHour: null, connections: 4, messagesPerConnection: null });
    const messages = learn(UNTAUGHT, refused(1_000, { concerns: "messages-per-connection", messages: 21 }));
    expect(messages).toMatchObject({
      ratePerHour: null,
      connections: null,
      messagesPerConnection: 20,
      waitsUntilMs: 0,
    });
  });

  test("has it wait for a while, a short one where more was tried than is known to go well", () => {
    const sending: PaceMemory = { ...UNTAUGHT, ratePerHour: 500, rateReducedAtMs: 1 };
    const onTrial: PaceMemory = { ...sending, probes: 1 };
    const waitMs = (memory: PaceMemory, signal: Parameters<typeof refused>[1]) =>
      learn(memory, refused(1_000_000, signal)).waitsUntilMs - 1_000_000;
    expect(waitMs(sending, { waitSeconds: undefined })).toBe(15_000);
    expect(waitMs(onTrial, { waitSeconds: undefined })).toBe(5_000);
    expect(waitMs(onTrial, { waitSeconds: undefined, concerns: "connections" })).toBe(15_000);
    expect(waitMs(onTrial, { waitSeconds: 60 })).toBe(60_000);
  });

  test("never stops a source altogether", () => {
    let memory: PaceMemory = UNTAUGHT;
    for (let i = 0; i < 50; i += 1) {
      memory = learn(memory, refused(i * 60_000));
      memory = learn(memory, refused(i * 60_000, { concerns: "connections" }));
    }
    expect(memory.ratePerHour).toBeGreaterThan(0);
    expect(memory.connections).toBe(1);
  });
});

describe("what goes well", () => {
  test("is not raised while it waits, nor by who sends less than it may", () => {
    const memory = learn(UNTAUGHT, refused(1_000));
    expect(learn(memory, at(15_000, 500)).ratePerHour).toBe(500);
    expect(learn(memory, at(3_600_000, 100)).ratePerHour).toBe(500);
    expect(learn(memory, at(3_600_000, 480)).ratePerHour).toBeGreaterThan(500);
  });

  test("gets one session more, and a tenth more messages, after a while", () => {
    const memory: PaceMemory = { ...UNTAUGHT, connections: 4, messagesPerConnection: 20 };
    expect(learn(memory, at(300_000, 100))).toMatchObject({ connections: 5, messagesPerConnection: 20 });
    expect(learn(memory, at(3_600_000, 100))).toMatchObject({ connections: 5, messagesPerConnection: 22 });
    expect(learn(memory, { ...at(300_000, 100), sessions: 3 }).connections).toBe(4);
  });

  test("asks for one session more ever later where that is one too many, and sooner again once it went well", () => {
    let memory: PaceMemory = { ...UNTAUGHT, connections: 4, connectionsReducedAtMs: 1, connectionsChangedAtMs: 1 };
    const isRaised = (nowMs: number) => learn(memory, at(nowMs, 100)).connections === 5;
    const tooMany = (nowMs: number) => refused(nowMs, { concerns: "connections", waitSeconds: 1 });
    memory = learn(memory, at(300_001, 100));
    memory = learn(memory, tooMany(301_000));
    expect(memory).toMatchObject({ connections: 4, connectionMisses: 1 });
    expect([isRaised(900_999), isRaised(902_000)]).toEqual([false, true]);
    memory = learn(learn(memory, at(902_000, 100)), at(1_502_000, 100));
    expect(memory).toMatchObject({ connections: 6, connectionMisses: 0 });
  });

  test("is forgotten as a limit when nobody insisted for a week", () => {
    const memory = learn(learn(UNTAUGHT, refused(1_000)), refused(1_000, { concerns: "connections" }));
    const later = learn(memory, at(1_000 + FORGET_MS, 0));
    expect(isUntaught(memory, 2_000)).toBe(false);
    expect(isUntaught(later, 1_000 + FORGET_MS)).toBe(true);
  });
});

describe("leave for messages", () => {
  test("fills up by the rate, in whole messages, and saves up four seconds' worth", () => {
    const empty = { tokens: 0, filledAtMs: 0 };
    expect(draw(empty, 36_000, { nowMs: 550, returned: 0, wanted: 10 })).toEqual({
      bucket: { tokens: 0.5, filledAtMs: 550 },
      granted: 5,
    });
    expect(draw(empty, 36_000, { nowMs: 3_600_000, returned: 0, wanted: 100 }).granted).toBe(40);
    expect(draw(empty, 6, { nowMs: 3_600_000, returned: 0, wanted: 9 }).granted).toBe(1);
  });

  test("comes back when it was not used, and survives a clock that is set back", () => {
    expect(draw({ tokens: 0, filledAtMs: 0 }, 36_000, { nowMs: 0, returned: 7, wanted: 100 }).granted).toBe(7);
    const back = draw({ tokens: 3, filledAtMs: 90_000 }, 36_000, { nowMs: 1_000, returned: 0, wanted: 9 });
    expect(back).toEqual({ bucket: { tokens: 0, filledAtMs: 1_000 }, granted: 3 });
    const late = draw({ tokens: 3, filledAtMs: 9_000 }, 36_000, { nowMs: 8_900, returned: 0, wanted: 9 });
    expect(late.bucket.filledAtMs).toBe(9_000);
  });

  test("goes by what is pinned, else by what is learnt, and never above what is configured", () => {
    const learnt = { ...UNTAUGHT, ratePerHour: 500 };
    expect(rateInForce(learnt, { ...UNPINNED, ratePerHour: 900 }, 100)).toBe(900);
    expect(rateInForce(learnt, UNPINNED, 100)).toBe(100);
    expect(rateInForce(learnt, UNPINNED, null)).toBe(500);
    expect(rateInForce(UNTAUGHT, UNPINNED, 100)).toBe(100);
    expect(rateInForce(UNTAUGHT, UNPINNED, null)).toBeNull();
  });
});

describe("at a provider with a limit", () => {
  const provider = (limitAt: (ms: number) => number) => leaky("", limitAt);
  const PER_HOUR = 36_000;

  test("nine tenths of it are used, with less than one message in a hundred put off", () => {
    const day = simulate(
      provider(() => PER_HOUR),
      "learnt",
      24,
    );
    expect(day.used).toBeGreaterThan(0.9);
    expect(day.deferred / day.delivered).toBeLessThan(0.01);
  });

  test.each([0.3, 0.5, 2, 3])(
    "one that changes to %s of it is found within ten minutes, whenever that is",
    (factor) => {
      for (let minute = 120; minute < 128; minute += 1) {
        const { rates } = simulate(
          provider((ms) => (ms < minute * 60_000 ? PER_HOUR : PER_HOUR * factor)),
          "learnt",
          2.4,
        );
        const soon = rates.slice(minute, minute + 10).map((rate) => rate / (PER_HOUR * factor));
        expect(soon.some((share) => share > 0.85 && share < 1.15)).toBe(true);
      }
    },
  );

  test("of sessions, few messages are put off, and most of it is used", () => {
    const day = simulate(fewSessions("", 5, 2), "learnt", 24);
    expect(day.used).toBeGreaterThan(0.95);
    expect(day.deferred / day.delivered).toBeLessThan(0.01);
  });

  test("that has it wait for long, refusals are few, and most of the limit is used", () => {
    const refusal = "421 4.7.28 too much mail, try again in 5 minutes";
    const day = simulate(
      leaky("", () => PER_HOUR, { refusal }),
      "learnt",
      24,
    );
    expect(day.used).toBeGreaterThan(0.88);
    expect(day.reductions).toBeLessThan(24);
  });

  test("who greylists is sent no less", () => {
    const day = simulate(greylisting("", 300_000, 40), "learnt", 4);
    expect(day.reductions).toBe(0);
    expect(day.rates.at(-1)).toBe(day.rates[0]);
  });

  test("by the minute of the clock, most of it is used", () => {
    const day = simulate(windowed("", 500, 60_000), "learnt", 24);
    expect(day.used).toBeGreaterThan(0.85);
    expect(day.deferred / day.delivered).toBeLessThan(0.02);
  });
});

test("what was accepted counts for a minute, burst or not", () => {
  const count = new RecentCount();
  for (let i = 0; i < 60; i += 1) count.add(100_000);
  expect(count.perHour(100_000)).toBe(3_600);
  expect(count.perHour(154_000)).toBe(3_600);
  expect(count.perHour(161_000)).toBe(0);
  for (let second = 0; second < 600; second += 1) count.add(200_000 + second * 1_000);
  expect(count.perHour(799_000)).toBe(3_600);
});

test("workers that sent beside the first that was refused are counted in, soon after and once only the first time", () => {
  const first = learn(UNTAUGHT, refused(1_000));
  const joining = (nowMs: number): PaceEvidence => ({ ...nothing, nowMs, joiningPerHour: 2_000 });
  expect(learn(first, joining(3_000))).toMatchObject({ ratePerHour: 1_500, refusedPerHour: 3_000 });
  expect(learn(first, joining(60_000)).ratePerHour).toBe(500);
  expect(learn(learn(first, refused(40_000)), joining(41_000)).ratePerHour).toBe(250);
});

test("the first rate is half of what was really accepted, and a message a minute where that was nothing", () => {
  expect(learn(UNTAUGHT, { ...refused(1_000), acceptedPerHour: 7_200, triedPerHour: 90_000 }).ratePerHour).toBe(3_600);
  expect(learn(UNTAUGHT, { ...refused(1_000), acceptedPerHour: 0, triedPerHour: 90_000 }).ratePerHour).toBe(60);
});
