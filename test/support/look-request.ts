import type { LookRequest } from "../../services/delivery/queue-look.ts";

/** What a worker with nothing under way asks of the queue. */
export const LOOK_REQUEST: Omit<LookRequest, "workerId"> = {
  limit: 48,
  leaseSeconds: 30,
  busy: new Map(),
  partitionsPerInstance: 42,
  slots: new Map(),
  slotsPerQueue: 4,
  unfinished: [],
};
