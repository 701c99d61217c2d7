import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../support/stack.ts";
import { startTestTracking, type TestDelivery, type TestTracking } from "../support/tracking.ts";

/** The bar is 60 s; a run of every day makes do with less. */
const OUTAGE_SECONDS = Number(process.env.TRACKING_OUTAGE_SECONDS ?? 10);
const CLICK_EVERY_MS = 25;
const TARGET = "https://shop.example.org/offer";
const HTML = `<p><a href="${TARGET}">Offer</a></p>`;

let tracking: TestTracking;
beforeAll(async () => {
  tracking = await startTestTracking();
});
afterAll(async () => {
  await tracking.stop();
  expect(tracking.failures).toEqual([]);
});

test(
  `with the database away for ${OUTAGE_SECONDS} s every click leads on, and arrives afterwards, once`,
  async () => {
    const people = await Promise.all(
      Array.from({ length: 5 }, (_, n) => tracking.deliver(`person${n}@outage.example.net`, HTML)),
    );
    const clicked = new Map<TestDelivery, number>(people.map((person) => [person, 0]));
    /** Everybody once at least: of whom has clicked the link is known. */
    const clickFor = async (seconds: number) => {
      const deadline = Date.now() + seconds * 1_000;
      for (let n = 0; n < people.length || Date.now() < deadline; n++) {
        const person = people[n % people.length]!;
        const answer = await tracking.get(person.clicks[TARGET]!);
        expect([answer.status, answer.headers.location]).toEqual([302, TARGET]);
        clicked.set(person, clicked.get(person)! + 1);
        await sleep(CLICK_EVERY_MS);
      }
    };
    await clickFor(1);
    await tracking.gate.shut();
    await clickFor(OUTAGE_SECONDS);
    await tracking.gate.open();
    await clickFor(1);
    for (const [person, clicks] of clicked) {
      const events = await eventually(
        () => tracking.eventsOf(person),
        (found) => found.length >= clicks,
      );
      expect(events.map(({ kind }) => kind)).toEqual(Array(clicks).fill("clicked"));
    }
    await tracking.restart();
    await sleep(500);
    for (const [person, clicks] of clicked) expect(await tracking.eventsOf(person)).toHaveLength(clicks);
  },
  (OUTAGE_SECONDS + 300) * 1_000,
);
