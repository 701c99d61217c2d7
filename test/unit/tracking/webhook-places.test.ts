import { describe, expect, it } from "vitest";
import { WebhookPlaces } from "../../../services/tracking/webhooks/places.ts";

const hook = (instanceId: number, n = 0, failures = 0) => ({ instanceId, name: `hook${n}`, failures });

describe("the places of a worker", () => {
  it("are 4 of an instance, and 32 in all", () => {
    const places = new WebhookPlaces();
    for (let n = 0; n < 3; n++) places.take(hook(1, n));
    expect(places.free()).toEqual({ fullInstances: [], troubled: true, slow: [] });
    const giveBack = places.take(hook(1, 3));
    expect(places.free()!.fullInstances).toEqual([1]);
    giveBack(5);
    expect(places.free()!.fullInstances).toEqual([]);
    for (let instance = 2; instance < 31; instance++) places.take(hook(instance));
    expect(places.free()).toBeUndefined();
  });

  it("are 16 of those that fail or were slow, and a slow one is so until it answers soon", () => {
    const places = new WebhookPlaces();
    for (let instance = 0; instance < 8; instance++) places.take(hook(instance))(9_300);
    const given = Array.from({ length: 8 }, (_, instance) => places.take(hook(instance)));
    for (let instance = 8; instance < 16; instance++) places.take(hook(instance, 0, 1));
    const full = places.free()!;
    expect(full.troubled).toBe(false);
    expect(full.slow).toHaveLength(8);
    expect(full.slow[0]).toEqual({ instanceId: 0, name: "hook0" });
    // Quick again, or not asked at all.
    given[0]!(10);
    given[1]!();
    expect(places.free()!.troubled).toBe(true);
    places.take(hook(0));
    expect(places.free()!.troubled).toBe(true);
    places.take(hook(1));
    places.take(hook(20, 0, 3));
    expect(places.free()!.slow).toHaveLength(7);
  });
});
