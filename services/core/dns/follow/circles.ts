import { addToGroup } from "../../groups.ts";

/** What followers lead to: by the key of a follower's name, the keys of the names that it follows. */
export type Steps = ReadonlyMap<string, readonly string[]>;

/**
 * Finds the ways that lead back to where they begin.
 * @returns whether a step is part of one: whether from the name that it leads to some way leads back
 */
export function findCircles(steps: Steps): (from: string, to: string) => boolean {
  const onward = new Map([...steps].map(([name, targets]) => [name, [...new Set(targets)]]));
  const backward = new Map<string, string[]>();
  for (const [name, targets] of onward) {
    for (const target of targets) addToGroup(backward, target, name);
  }
  const ended = leadingNowhere(onward, backward);
  const left = new Set([...onward.keys()].filter((name) => !ended.has(name)));
  return (from, to) => left.has(from) && left.has(to) && reaches(onward, to, from);
}

/** The names from which every way ends. */
function leadingNowhere(onward: Steps, backward: Steps): ReadonlySet<string> {
  const open = new Map([...onward].map(([name, targets]) => [name, targets.length]));
  const ended = new Set([...backward.keys()].filter((name) => !open.has(name)));
  for (const [name, count] of open) if (count === 0) ended.add(name);
  for (const end of ended) {
    for (const name of backward.get(end) ?? []) {
      const count = open.get(name)! - 1;
      open.set(name, count);
      if (count === 0) ended.add(name);
    }
  }
  return ended;
}

function reaches(steps: Steps, start: string, goal: string): boolean {
  const seen = new Set([start]);
  for (const name of seen) {
    if (name === goal) return true;
    for (const target of steps.get(name) ?? []) seen.add(target);
  }
  return false;
}
