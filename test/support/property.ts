import { randomInt } from "node:crypto";
import fc from "fast-check";

/**
 * Every run of the tests tries the same inputs, so that a change is judged by itself and not by luck.
 * `TEST_SEED=random` (or a number) tries others; a failure prints its seed.
 */
const wanted = process.env.TEST_SEED ?? "20261120";
/** What this run's inputs follow from. */
export const seedOfRun = wanted === "random" ? randomInt(2 ** 31) : Number(wanted);
fc.configureGlobal({ seed: seedOfRun });

export { fc };
