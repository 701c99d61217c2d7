import { addCounts, type MetricFamilies } from "../platform/observability/metrics.ts";

/**
 * What the processes of one service have counted, one after another. Services are summed: a count that began anew with one
 * of them, or that was left out as it did not answer, would be a sum that falls, and to Prometheus all of it an increase.
 */
export class KeptCounts {
  /** Of the processes that have ended, as of when they were last asked. */
  #ended: MetricFamilies = [];
  /** Of the one that runs. */
  #last: MetricFamilies = [];

  /** @param told by the process that runs; undefined where it does not answer @returns that, and what is kept */
  withKept(told: MetricFamilies | undefined): MetricFamilies[] {
    if (told !== undefined) this.#last = addCounts(told, []);
    return [this.#ended, told ?? this.#last];
  }

  endProcess(): void {
    this.#ended = addCounts(this.#ended, this.#last);
    this.#last = [];
  }
}
