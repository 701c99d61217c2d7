import { expect, it } from "vitest";
import { hashLabel } from "../../../../services/dns-server/zone-database/name-hash.ts";

const labelOf = (text: string) => Uint8Array.of(text.length, ...Buffer.from(text));
/** The buckets of a table of 256. */
const bucketOf = (key: readonly [number, number], label: string) => hashLabel(...key, 0, labelOf(label), 0) & 0xff;

it("names that were chosen to collide under one key are spread under another", () => {
  const known = [0x01234567, 0x89abcdef] as const;
  const chosen: string[] = [];
  for (let n = 0; chosen.length < 64; n += 1) if (bucketOf(known, `host${n}`) === 0) chosen.push(`host${n}`);
  const buckets = new Set(chosen.map((label) => bucketOf([0x0badcafe, 0x76543210], label)));
  // 64 names thrown at 256 buckets at random: some 57 of them are met.
  expect(buckets.size).toBeGreaterThan(40);
});

it("a label's hash depends on its parent's, its length and every octet", () => {
  const hashes = ["a", "b", "ab", "ba", "abcd", "abce", "abcda"].flatMap((label) =>
    [0, 1].map((parent) => hashLabel(1, 2, parent, labelOf(label), 0)),
  );
  expect(new Set(hashes).size).toBe(hashes.length);
});
