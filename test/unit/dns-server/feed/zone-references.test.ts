import { expect, it } from "vitest";
import { ZoneReferences } from "../../../../services/dns-server/feed/zone-references.ts";

/** Ids side by side, far apart, and beyond 32 bits. */
const IDS = [
  ...Array.from({ length: 300 }, (_, index) => index),
  ...Array.from({ length: 300 }, (_, index) => 2 ** 31 + index * 37),
  ...Array.from({ length: 300 }, (_, index) => 2 ** 52 + index * 1_000_003),
];

it("has what a map has, whatever comes and goes", () => {
  const references = new ZoneReferences();
  const model = new Map<number, number>();
  for (let step = 1; step <= 20_000; step += 1) {
    const id = IDS[(step * 7_919 + (step >> 3)) % IDS.length]!;
    if (step % 3 === 0) expect(references.delete(id)).toBe(model.delete(id));
    else {
      const reference = step % 5 === 0 ? -step : step;
      references.set(id, reference);
      model.set(id, reference);
    }
    expect([references.size, references.get(id)]).toEqual([model.size, model.get(id) ?? 0]);
  }
  for (const id of IDS) expect(references.get(id)).toBe(model.get(id) ?? 0);
  expect([...references.ids()].sort((a, b) => a - b)).toEqual([...model.keys()].sort((a, b) => a - b));
});

it("has ids in order that came in order", () => {
  const references = new ZoneReferences();
  const ids = Array.from({ length: 1_000 }, (_, index) => 3 * index + 5);
  for (const id of ids) references.set(id, 8);
  expect([...references.ids()]).toEqual(ids);
});

it("is empty again after all is gone, and takes other ids", () => {
  const references = new ZoneReferences();
  for (const id of IDS) references.set(id, 8);
  for (const id of IDS) expect(references.delete(id)).toBe(true);
  expect([references.size, [...references.ids()]]).toEqual([0, []]);
  references.set(2 ** 40, 16);
  expect([references.get(2 ** 40), [...references.ids()]]).toEqual([16, [2 ** 40]]);
});
