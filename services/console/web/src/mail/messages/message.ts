import type { Sentence } from "../../../../../core/sentences.ts";
import type { Tone } from "../../components/badge.tsx";

export type MessageState = "queued" | "deferred" | "delivered" | "bounced" | "cancelled";

export const MESSAGE_STATES: readonly MessageState[] = ["queued", "deferred", "delivered", "bounced", "cancelled"];

/** A message to one recipient, as the console's API says it. */
export interface Message {
  readonly id: number;
  readonly eeid: string;
  readonly recipient: string;
  readonly state: MessageState;
  readonly accepted: string;
  readonly campaign: number;
  readonly creator: string;
  readonly subject: string | null;
  readonly sender: string | null;
  readonly message_id: string | null;
  readonly attempts: number;
  readonly reply: string | null;
  readonly finished: string | null;
  readonly next_attempt: string | null;
  readonly complained: boolean;
  /** The sending limits have room for it at `next_attempt`, no earlier. */
  readonly waits_for_limit: boolean;
}

export interface AttemptPath {
  readonly exchanger: string;
  readonly address: string;
  readonly source: string;
  readonly tls: string;
  readonly cipher: string;
  readonly certificate: string;
  readonly policy: "" | "dane" | "mta-sts";
}

export interface Attempt {
  readonly at: string;
  readonly attempt: number;
  readonly outcome: "delivered" | "deferred" | "bounced";
  readonly duration_ms: number;
  readonly stage: string;
  readonly reason: string;
  readonly reply: string;
  readonly path: AttemptPath | null;
  /** A session came about, in which a message could be sent. */
  readonly session: boolean;
}

export interface MessageEvent {
  readonly at: string;
  readonly kind: string;
  readonly machine: boolean;
  readonly reason: string;
  readonly words: string;
}

/** What came back about it. */
export interface ReturnedReport {
  readonly id: number;
  readonly received: string;
  readonly kind: string;
  /** The return path; empty for the null one. */
  readonly from: string;
}

/** All that is known of it. */
export interface Story extends Message {
  readonly sending: boolean;
  readonly paused: string | null;
  readonly pause_reason: Sentence | null;
  readonly destination_held: string | null;
  readonly destination_left_alone_until: string | null;
  readonly paced_until: string | null;
  readonly paced_by: "provider" | "warm-up" | null;
  readonly paced_provider: string | null;
  readonly destination_trouble: string | null;
  readonly archived: boolean;
  readonly attempt_list: readonly Attempt[];
  readonly events: readonly MessageEvent[];
  readonly reports: readonly ReturnedReport[];
}

export const STATE_TONES: Readonly<Record<MessageState, Tone>> = {
  queued: "accent",
  deferred: "warn",
  delivered: "good",
  bounced: "bad",
  cancelled: "quiet",
};

/** Whether something may still become of it without anybody's doing. */
export function isUnderWay({ state }: Pick<Message, "state">): boolean {
  return state === "queued" || state === "deferred";
}
