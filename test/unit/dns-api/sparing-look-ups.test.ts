import { expect, test } from "vitest";
import { parseDomainName } from "../../../services/core/dns/name.ts";
import { SparingLookUps } from "../../../services/dns-api/sparing-look-ups.ts";
import type { ParentDs } from "../../../services/platform/lookups/ds-lookup.ts";

const NAME = parseDomainName("example.org.");
const PARENT: ParentDs = { records: [], ttlSeconds: 60, authenticated: true };

test("a company whose parents do not answer rests, and no other", async () => {
  if (!NAME.ok) throw new Error();
  let answer: ParentDs | undefined;
  const lookUps = new SparingLookUps(() => Promise.resolve(answer));
  const ask = async (company: number) => await lookUps.of(company)?.(NAME.value);
  for (let look = 0; look < 4; look += 1) await ask(1);
  answer = PARENT;
  expect(await ask(1)).toBe(PARENT);
  answer = undefined;
  for (let look = 0; look < 5; look += 1) {
    expect(lookUps.of(1)).toBeDefined();
    await ask(1);
  }
  expect(lookUps.of(1)).toBeUndefined();
  answer = PARENT;
  expect(await ask(2)).toBe(PARENT);
  expect(await ask(1)).toBeUndefined();
});
