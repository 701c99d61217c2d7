import { expect, it } from "vitest";
import { NameTree, parentKey } from "../../../../../services/core/dns/dnssec/name-tree.ts";
import { type DomainName, formatDomainName, parentOf, ROOT } from "../../../../../services/core/dns/name.ts";
import { runAtOnce } from "../../../../../services/core/steps.ts";
import { nameOf as name } from "../support.ts";

const APEX = name("example.org.");
const DEEP = `${"a.".repeat(100)}example.org.`;

function added(tree: NameTree, names: readonly DomainName[], most = 10_000): string[] {
  return runAtOnce(tree.add(names, most)).map(formatDomainName);
}

it("has names with all between them and the apex, each after its ancestors", () => {
  const tree = new NameTree(APEX);
  expect(added(tree, [name("c.b.A.example.org."), name("d.a.example.org.")])).toEqual([
    "c.b.A.example.org.",
    "b.A.example.org.",
    "A.example.org.",
    "example.org.",
    "d.a.example.org.",
  ]);
  expect(added(tree, [APEX, name("x.C.B.a.example.org.")])).toEqual(["x.C.B.a.example.org."]);
  const seen = new Set<string>([parentOf(APEX)!.key]);
  for (const one of tree.topDown()) {
    expect(seen).toContain(parentKey(one));
    expect(parentKey(one)).toBe(parentOf(one)!.key);
    seen.add(one.key);
  }
  expect(tree.size).toBe(6);
});

it("gives names that share most of theirs once", () => {
  const tree = new NameTree(APEX);
  const names = Array.from({ length: 3_000 }, (_, index) => name(`x${index}.${DEEP}`));
  expect(added(tree, names)).toHaveLength(3_000 + 101);
  expect(added(tree, names)).toEqual([]);
  expect(tree.size).toBe(3_101);
});

it("stops when there are more names than it may have, and gives way before", () => {
  const tree = new NameTree(APEX);
  const names = Array.from({ length: 1_000 }, (_, index) => name(`${"b.".repeat(99)}x${index}.example.org.`));
  const steps = tree.add(names, 1_000);
  let turns = 0;
  while (!steps.next().done) turns += 1;
  expect(turns).toBe(2);
  // The apex, and ten names with the 99 above each.
  expect(tree.size).toBe(1 + 10 * 100);
});

it("ends at the root", () => {
  expect(added(new NameTree(ROOT), [name("a.b.")])).toEqual(["a.b.", "b.", "."]);
});
