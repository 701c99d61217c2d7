import type { DeliveryOutcome } from "../store/mail/queue/deliveries.ts";
import type { PacedBy } from "../store/mail/queue/queue-leases.ts";
import type { AttemptResult } from "./decide.ts";

/** What came of turning to one recipient. */
export type Attempt = Tried | PutOff;

/** There is a result for the recipient. */
export interface Tried {
  readonly kind: "tried";
  readonly result: AttemptResult;
  /** That it left from; undefined where nobody was spoken to. */
  readonly source?: string | undefined;
  /** Messages that had gone over its session, this one included. */
  readonly messages?: number;
  /** What left, if it is to be kept. */
  readonly archived?: DeliveryOutcome["archived"];
  /** Frees the memory of what is to be kept, once it is stored. */
  readonly giveBack?: () => void;
}

/** Nobody was turned to: the recipient stays due, and the partition goes back with whoever comes after it. */
export interface PutOff {
  readonly kind: "put off";
  /** It is left alone for so long; see `PartitionRelease`. */
  readonly seconds: number;
  readonly pacedBy?: PacedBy;
}

/** How long a partition waits that met a limit on its way. */
export const PUT_OFF_SECONDS = 1;
/** A limit was met on the way. */
export const PUT_OFF: PutOff = { kind: "put off", seconds: PUT_OFF_SECONDS };
/** Something else decides when the partition is taken again: its stop, or the room that its destination has. */
export const GIVEN_BACK: PutOff = { kind: "put off", seconds: 0 };
