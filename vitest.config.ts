import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";

/** Has an engine to itself, and takes minutes: `npm run test:compose`. */
const CONTAINERS = "test/system/compose.test.ts";
/** Play whole machines, which are killed, cut off and filled up for minutes: `npm run test:cluster`. */
const MACHINES = ["test/system/failover.test.ts", "test/system/systemd.test.ts"];

export default defineConfig({
  test: {
    // Most of what these tests do is to wait for sockets, disks and clocks: more files at once than cores.
    maxWorkers: 6,
    // Helpers that collect garbage would take the cores from the other files.
    execArgv: ["--single-threaded-gc"],
    // No file leaves anything behind for the next: modules are loaded once for all that a worker runs. It runs files of one
    // project only, and ends where the next is of another: so all these are one.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // What hangs is to end; how fast things are is measured by the benchmarks, on a quiet machine.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 100 } },
    projects: [
      {
        extends: true,
        test: {
          name: "tests",
          include: ["test/{unit,golden,property,rules,service,system}/**/*.test.ts"],
          exclude: [CONTAINERS, ...MACHINES],
          globalSetup: ["test/support/global-set-up.ts"],
        },
      },
      { extends: true, test: { name: "containers", include: [CONTAINERS] } },
      { extends: true, test: { name: "cluster", include: MACHINES, fileParallelism: false } },
    ],
  },
});
