import { expect, test } from "vitest";
import { Lifecycle } from "../../../services/platform/lifecycle.ts";
import type { Logger } from "../../../services/platform/observability/logger.ts";

const LATE = "did not stop within the deadline";

/** What is logged, by closer. */
function listen(): { logger: Logger; logged: [string, string][] } {
  const logged: [string, string][] = [];
  const log = ({ closer }: { closer: string }, text: string) => logged.push([closer, text]);
  return { logger: { warn: log, error: log } as unknown as Logger, logged };
}

const never = () => new Promise(() => {});

test("what was started last is stopped first, and a failure keeps nothing else from it", async () => {
  const { logger, logged } = listen();
  const lifecycle = new Lifecycle(logger);
  const stopped: string[] = [];
  lifecycle.onStop("database", () => stopped.push("database"));
  lifecycle.onStop("broken", () => Promise.reject(new Error("broken")));
  lifecycle.onStop("listener", () => stopped.push("listener"));
  await lifecycle.stop();
  expect(stopped).toEqual(["listener", "database"]);
  expect(logged).toEqual([["broken", "failed to stop"]]);
});

test("what is stopped side by side waits for none of the others, late or broken ones", async () => {
  const { logger, logged } = listen();
  const lifecycle = new Lifecycle(logger);
  const stopped: string[] = [];
  lifecycle.onStop("database", () => stopped.push("database"));
  lifecycle.onStopTogether({
    reports: never,
    broken: () => {
      throw new Error("broken");
    },
    worker: () => stopped.push("worker"),
  });
  const stopping = lifecycle.stop(100);
  await Promise.resolve();
  await Promise.resolve();
  expect(stopped).toEqual(["worker"]);
  await stopping;
  expect(stopped).toEqual(["worker", "database"]);
  expect(logged).toEqual([
    ["broken", "failed to stop"],
    ["reports", LATE],
  ]);
});
