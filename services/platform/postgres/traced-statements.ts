import type pg from "pg";
import { errorType, type OpenSpan, type SpanAttributes } from "../observability/tracer.ts";

type OpenChild = (name: string, attributes: SpanAttributes) => OpenSpan | undefined;
/** How a connection is asked; its caller waits by a promise, by a callback, or reads or writes a stream. */
export type Query = (...given: unknown[]) => unknown;

const DATABASE: SpanAttributes = { "db.system.name": "postgresql" };
const BEGINS = /^\s*(?:begin|start transaction)\b/i;
const ENDS = /^\s*(?:commit|rollback)\b(?!\s+to\b)/i;

/**
 * Makes a connection's transactions spans of whatever runs them, with an event for each statement, and of a statement
 * outside of a transaction a span of its own. Statements go by their names, or by what they do to which table: never by
 * their text or their values.
 */
export function traceStatements(connection: pg.Client, openChild: OpenChild): void {
  const query = connection.query.bind(connection) as Query;
  let transaction: OpenSpan | undefined;
  let failure: SpanAttributes = {};

  const traced: Query = (statement, ...rest) => {
    const { name, text } = describe(statement);
    if (BEGINS.test(text)) {
      transaction = openChild("database transaction", DATABASE);
      failure = {};
      return query(statement, ...rest);
    }
    if (transaction !== undefined) {
      const span = transaction;
      if (!ENDS.test(text)) {
        span.note(name ?? summarise(text));
        return watch(query, [statement, ...rest], (ended) => {
          failure = { ...failure, ...ended };
        });
      }
      transaction = undefined;
      return watch(query, [statement, ...rest], (ended) => span.end({ ...failure, ...ended }));
    }
    const summary = name ?? summarise(text);
    const span = openChild(summary, { ...DATABASE, "db.query.summary": summary });
    return span === undefined
      ? query(statement, ...rest)
      : watch(query, [statement, ...rest], (ended) => span.end(ended));
  };
  connection.query = traced as typeof connection.query;
}

/** Runs a statement, and tells when it has ended, however its caller waits for that. */
export function watchStatement(query: Query, given: readonly unknown[], onEnd: (error?: unknown) => void): unknown {
  const callback = given.at(-1);
  if (typeof callback === "function") {
    return query(...given.slice(0, -1), (error: unknown, result: unknown) => {
      onEnd(error ?? undefined);
      callback(error, result);
    });
  }
  const answer = query(...given);
  if (answer instanceof Promise) answer.then(() => onEnd(), onEnd);
  // A COPY, which is a stream; one that is refused tells no more than that.
  else (answer as NodeJS.EventEmitter).once("close", () => onEnd()).once("error", onEnd);
  return answer;
}

function watch(query: Query, given: readonly unknown[], onEnd: (attributes: SpanAttributes) => void): unknown {
  return watchStatement(query, given, (error) => onEnd(error ? { "error.type": errorType(error) } : {}));
}

function describe(statement: unknown): { readonly name?: string; readonly text: string } {
  if (typeof statement === "string") return { text: statement };
  const { name, text } = statement as { name?: string; text?: unknown };
  return { ...(name === undefined ? {} : { name }), text: typeof text === "string" ? text : "" };
}

const CHANGES = /(?<!\bfor (?:no key )?)\b(insert into|update|delete from|copy|call|truncate)\s+"?([a-z_]+)/i;
const READS = /\bfrom\s+"?([a-z_]+)/i;

/** What a statement changes, or else what it reads: `update deliveries`, `select contacts`. */
export function summarise(text: string): string {
  const [, change, changed] = CHANGES.exec(text) ?? [];
  if (change !== undefined) return `${change.split(" ")[0]!.toLowerCase()} ${changed}`;
  const [, read] = READS.exec(text) ?? [];
  const [, verb = "statement"] = /^\s*([a-z]+)/i.exec(text) ?? [];
  return read === undefined ? verb.toLowerCase() : `select ${read}`;
}
