import { describe, expect, it } from "vitest";
import type { DestinationQueue } from "../../../../../services/core/mail/queue/destination-queue.ts";
import { InstanceTurn, type Takeable, type Visit } from "../../../../../services/core/mail/queue/instance-turn.ts";

const AGES = 1_000_000;

/** A look at which these queues have no slot, or are suspended. */
function lookAt(atMs: number, { full = [], suspended = [], resumedAtMs = -1 }: LookOptions = {}): Takeable {
  const isSuspended = (queue: DestinationQueue) => suspended.includes(queue);
  return { atMs, isSuspended, mayTake: (queue) => !full.includes(queue) && !isSuspended(queue), resumedAtMs };
}

interface LookOptions {
  readonly full?: readonly DestinationQueue[];
  readonly suspended?: readonly DestinationQueue[];
  readonly resumedAtMs?: number;
}

/** Asks for two partitions. @param taken their destinations */
function visit(turn: InstanceTurn, now: Takeable, taken: readonly string[], changes: Partial<Visit> = {}): void {
  const partitions = taken.map((destination) => ({ destination, pool: "", goesAhead: false }));
  const found = {
    queues: ["a", "b", "c"],
    aheadQueues: [],
    isRoundOver: true,
    last: "c",
    hasMore: true,
    dueInMs: AGES,
  };
  turn.visited({ ask: turn.ask(2, 10, now.atMs), partitions, ...found, ...changes }, now);
}

describe("the state of an instance", () => {
  it("is open while a visit gives something of which there is more", () => {
    const turn = new InstanceTurn(1, 0);
    visit(turn, lookAt(0), ["a"]);
    expect([turn.isToAsk(lookAt(0)), turn.wasLeftShort]).toEqual([true, true]);
  });

  it("is empty when nothing is left, and open again by notice or by mail made ready", () => {
    const turn = new InstanceTurn(1, 0);
    for (const reopen of [() => turn.notice(), () => turn.madeReady(600, true)]) {
      visit(turn, lookAt(0), ["a"], { hasMore: false, dueInMs: 700 });
      turn.madeReady(0, false);
      expect([turn.isToAsk(lookAt(AGES)), turn.isToMakeReady(AGES), turn.wasLeftShort]).toEqual([false, false, false]);
      expect([turn.isToPutOff(499), turn.isToPutOff(500)]).toEqual([false, true]);
      reopen();
      expect([turn.isToAsk(lookAt(600)), turn.isToPutOff(AGES)]).toEqual([true, false]);
    }
  });

  it("is empty but due until what is due was made ready", () => {
    const turn = new InstanceTurn(1, 0);
    visit(turn, lookAt(0), [], { hasMore: false, dueInMs: 5 });
    expect([turn.isEmptyButDue(4), turn.isEmptyButDue(5)]).toEqual([false, true]);
    turn.madeReady(5, false);
    expect(turn.isEmptyButDue(AGES)).toBe(false);
  });

  it("is blocked when a round is over in vain, until one of its queues has a slot or one was resumed", () => {
    const turn = new InstanceTurn(1, 0);
    const [full, suspended] = [["a", "b"], ["c"]];
    visit(turn, lookAt(0, { full, suspended }), []);
    expect(turn.isToAsk(lookAt(1, { full, suspended }))).toBe(false);
    expect(turn.isToAsk(lookAt(1, { full: ["a"], suspended }))).toBe(true);
    expect(turn.isToAsk(lookAt(1, { full, suspended, resumedAtMs: 1 }))).toBe(true);
    turn.madeReady(1, false);
    expect(turn.isToAsk(lookAt(1, { full, suspended }))).toBe(true);
  });

  it("is blocked for a while where it is held: it has mail, and shows no queue", () => {
    const turn = new InstanceTurn(1, 0);
    visit(turn, lookAt(0), [], { queues: [] });
    expect([turn.isToAsk(lookAt(1)), turn.isOpen(AGES)]).toEqual([false, false]);
  });

  it("is not blocked by a round that began before mail was noticed", () => {
    const turn = new InstanceTurn(1, 0);
    const full = ["a", "b", "c"];
    visit(turn, lookAt(0, { full }), [], { isRoundOver: false, last: "b" });
    turn.notice();
    visit(turn, lookAt(1, { full }), []);
    expect(turn.isToAsk(lookAt(1, { full }))).toBe(true);
    visit(turn, lookAt(2, { full }), []);
    expect(turn.isToAsk(lookAt(2, { full }))).toBe(false);
  });

  it("does not matter for a while after a statement failed", () => {
    const turn = new InstanceTurn(1, 0);
    turn.failed(0);
    expect([turn.isToAsk(lookAt(1_999)), turn.isToMakeReady(1_999), turn.isToAsk(lookAt(2_000))]).toEqual([
      false,
      false,
      true,
    ]);
  });
});

describe("what is due", () => {
  it("is made ready when a lease told that it is, and now and then, sooner while blocked", () => {
    const turn = new InstanceTurn(1, 0);
    expect([turn.isToMakeReady(59_999), turn.isToMakeReady(60_000)]).toEqual([false, true]);
    visit(turn, lookAt(0), ["a"], { dueInMs: 300 });
    expect([turn.isToMakeReady(299), turn.isToMakeReady(300)]).toEqual([false, true]);
    visit(turn, lookAt(0, { full: ["a", "b", "c"] }), []);
    expect([turn.isToMakeReady(1_999), turn.isToMakeReady(2_000)]).toEqual([false, true]);
  });
});

describe("the next ask", () => {
  it.each([
    ["begins anew after a round", ["a"], {}, { after: "", queues: 10, isNew: false }],
    ["goes on after what was visited", ["a"], { isRoundOver: false }, { after: "c", queues: 10 }],
    ["goes on after the last that was served, with fewer queues", ["b", "a"], {}, { after: "b", queues: 6 }],
    ["begins anew after the last queue of a round", ["b", "c"], {}, { after: "", queues: 6 }],
  ] as const)("%s", (_, taken, changes, expected) => {
    const turn = new InstanceTurn(1, 0);
    expect(turn.ask(2, 10, 0)).toMatchObject({ after: "", queues: 10, isNew: true });
    visit(turn, lookAt(0), taken, changes);
    expect(turn.ask(2, 10, 0)).toMatchObject(expected);
  });
});

describe("what goes ahead", () => {
  const AHEAD = ["x", "y", "z"];
  /** Asks for two partitions. @param taken destinations of what goes ahead */
  const visitAhead = (turn: InstanceTurn, taken: readonly string[], aheadQueues = AHEAD, atMs = 0) => {
    const partitions = taken.map((destination) => ({ destination, pool: "", goesAhead: true }));
    const found = { queues: ["a"], isRoundOver: true, last: "a", hasMore: true, dueInMs: AGES };
    turn.visited({ ask: turn.ask(2, 3, atMs), partitions, aheadQueues, ...found }, lookAt(atMs));
  };

  it("comes first at three looks of four", () => {
    const turn = new InstanceTurn(1, 0);
    const looks = [0, 0, 1, 2, 3, 3, 4].map((atMs) => turn.ask(2, 10, atMs).goesAhead);
    expect(looks).toEqual([true, true, true, true, false, false, true]);
  });

  it.each([
    ["goes on after the queue that was served last", ["y", "x"], AHEAD, "y"],
    ["begins anew after all queues", ["y"], AHEAD.slice(0, 2), ""],
    ["goes on after those that were visited", ["y"], AHEAD, "z"],
  ])("%s", (_, taken, queues, expected) => {
    const turn = new InstanceTurn(1, 0);
    visitAhead(turn, taken, queues);
    expect(turn.ask(2, 3, 0).aheadAfter).toBe(expected);
  });

  it("leaves the turn of the rest where it was", () => {
    const turn = new InstanceTurn(1, 0);
    visit(turn, lookAt(0), ["b", "a"]);
    visitAhead(turn, ["x", "y"]);
    expect(turn.ask(2, 10, 0).after).toBe("b");
  });
});
