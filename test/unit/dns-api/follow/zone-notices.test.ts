import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ZoneNotices } from "../../../../services/dns-api/follow/zone-notices.ts";

test("a notice names the zones whose followers are derived anew; one that names none means all", async () => {
  const stirred: (readonly number[] | undefined)[] = [];
  const notices = new ZoneNotices({
    stir: async (zoneIds) => void stirred.push(zoneIds),
    failed: (error) => expect.unreachable(String(error)),
  });
  const until = async (count: number) => {
    while (stirred.length < count) await sleep(10);
  };
  notices.note("7 8 9");
  await until(1);
  notices.note(undefined);
  await until(2);
  await notices.stop();
  expect(stirred).toEqual([[7, 8, 9], undefined]);
});
