import { expect, test } from "vitest";
import { eventually } from "../support/stack.ts";
import { startTestTracking } from "../support/tracking.ts";

const TARGET = "https://shop.example.org/offer";

test("what was kept and cannot be read keeps nothing else from being stored", async () => {
  const tracking = await startTestTracking();
  try {
    const ana = await tracking.deliver("ana@kept.example.net", `<p><a href="${TARGET}">Offer</a></p>`);
    // As a JSON null is no touch.
    await tracking.db("kept_touches").insert({ touch: "null" });
    await tracking.restart();
    await tracking.get(ana.clicks[TARGET]!);
    await eventually(
      () => tracking.eventsOf(ana),
      (events) => events.length === 1,
    );
    await expect.poll(() => tracking.failures).toMatchObject([{ kind: "tracking-event-dropped" }]);
    await expect.poll(() => tracking.db("kept_touches")).toEqual([]);
  } finally {
    await tracking.stop();
  }
});
