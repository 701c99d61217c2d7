import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestTracking, type TestDelivery, type TestTracking } from "../support/tracking.ts";

const MEBIBYTE = 2 ** 20;
const TARGET = "https://shop.example.org/offer";
const HTML = `<a href="${TARGET}">Offer</a>`;

/** Its messages have a link of 4 MiB each, as there may be from before targets had a bound: more than is kept in memory. */
let tracking: TestTracking;
let first: TestDelivery;
let last: TestDelivery;
beforeAll(async () => {
  tracking = await startTestTracking();
  const deliver = async (name: string) => {
    const delivery = await tracking.deliver(`${name}@links.example.net`, HTML);
    await tracking.db("tracked_links").insert({
      message_id: delivery.messageId,
      instance_id: tracking.instance.id,
      link: "0123456789ab",
      target: tracking.db.raw("? || repeat('x', ?)", [`${TARGET}?`, 4 * MEBIBYTE]),
    });
    return delivery;
  };
  first = await deliver("first");
  for (let n = 0; n < 58; n++) await deliver(`person${n}`);
  last = await deliver("last");
});
afterAll(async () => {
  await tracking.stop();
  expect(tracking.failures).toEqual([]);
});

test("a start reads no more links than are kept, nobody reads one again, and a click reads its own alone", async () => {
  await tracking.linksLearnt();
  const { octets: before } = tracking.gate;
  await tracking.restart();
  await tracking.linksLearnt();
  const { octets: started } = tracking.gate;
  expect(started - before).toBeGreaterThan(100 * MEBIBYTE);
  expect(started - before).toBeLessThan(130 * MEBIBYTE);
  await tracking.linksLearnt();
  expect((await tracking.get(first.clicks[TARGET]!)).headers.location).toBe(TARGET);
  expect(tracking.gate.octets - started).toBeLessThan(MEBIBYTE);
  await tracking.gate.shut();
  for (const known of [first, last]) expect((await tracking.get(known.clicks[TARGET]!)).headers.location).toBe(TARGET);
  await tracking.gate.open();
});
