const actions = new Set<() => void>();
// One listener for all: the eleventh would be taken for a leak.
process.once("exit", () => {
  for (const action of actions) action();
});
// So vitest ends its workers, and a process that a signal ends says nothing of its exit.
process.once("SIGTERM", () => process.exit());

/**
 * Whatever becomes of the tests of this process, this is done before it ends.
 * @returns forgets it, once it is needed no more
 */
export function atExit(action: () => void): () => void {
  actions.add(action);
  return () => actions.delete(action);
}
