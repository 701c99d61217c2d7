import type pg from "pg";
import { type Query, watchStatement } from "./traced-statements.ts";

/** SQLSTATE class 08: the server that was asked could not reach one that it asked in turn. */
const UNREACHED = /^08/;

/**
 * Statements of a pool that wait for their answers. A server that passes statements on waits without end for another one
 * that hangs, and so does whoever asked it: such connections can be given up here.
 */
export class StatementsUnderWay {
  readonly #begun = new Set<{ readonly connection: pg.Client; readonly sinceMs: number }>();
  #isUnreached = false;

  /** Follows what a connection is asked from now on. */
  follow(connection: pg.Client): void {
    const query = connection.query.bind(connection) as Query;
    const followed: Query = (...given) => {
      const statement = { connection, sinceMs: performance.now() };
      this.#begun.add(statement);
      return watchStatement(query, given, (error) => {
        this.#begun.delete(statement);
        if (UNREACHED.test((error as { code?: string } | undefined)?.code ?? "")) this.#isUnreached = true;
      });
    };
    connection.query = followed as typeof connection.query;
  }

  /** Whether one has waited for longer than this, or the server has said since the last call that it could not reach another. */
  isInTrouble(longerThanMs: number): boolean {
    const isUnreached = this.#isUnreached;
    this.#isUnreached = false;
    return isUnreached || this.#waitingFor(longerThanMs).length > 0;
  }

  /**
   * Ends connections whose statements have waited for longer than this; they fail as those of a server that is gone.
   * @param begunBefore only those of before this moment, of `performance.now`
   */
  giveUp(longerThanMs: number, begunBefore = Number.POSITIVE_INFINITY): void {
    for (const { connection, sinceMs } of this.#waitingFor(longerThanMs)) {
      if (sinceMs < begunBefore) connection.end().catch(() => {});
    }
  }

  #waitingFor(longerThanMs: number) {
    const before = performance.now() - longerThanMs;
    return [...this.#begun].filter(({ sinceMs }) => sinceMs < before);
  }
}
