import {
  type BounceClass,
  classifyBounce,
  classifyReply,
  isOfMailbox,
  type SmtpStage,
} from "../core/mail/bounce/class.ts";
import type { Phrases } from "../core/mail/bounce/phrases.ts";
import type { BounceReason } from "../core/mail/bounce/reason.ts";
import { type DeliveryProgress, decideRetry, type RetrySchedule } from "../core/mail/retry.ts";
import { describeSmtpReply, type SmtpReply } from "../core/mail/smtp-reply.ts";
import type { SmtpFailure } from "../platform/smtp/client.ts";

/** How an attempt ended. */
export type AttemptResult =
  /** `tells`: the far side tells the sender what it wants to be told of successes from here on (RFC 3461). */
  | { readonly kind: "accepted"; readonly reply: SmtpReply; readonly tells?: boolean }
  | { readonly kind: "failed"; readonly failure: SmtpFailure }
  /** No server to turn to: for good (5xx), or while DNS does not answer (4xx). */
  | { readonly kind: "unroutable"; readonly reply: SmtpReply };

/** What becomes of the recipient. `words` are the far side's, or what stands for them, on one line. */
export type Outcome =
  | { readonly kind: "delivered"; readonly words: string }
  | { readonly kind: "deferred"; readonly words: string; readonly retryInMs: number; readonly reason: BounceReason }
  | { readonly kind: "bounced"; readonly words: string; readonly bounceClass: BounceClass };

/**
 * Decides what an attempt means for its recipient. Only a refusal of this recipient, for good, is a bounce at once;
 * what is about us, about the connection or for now is tried again, and a soft bounce when it is given up.
 * @param progress with `attemptsMade` counting this attempt
 * @see RFC 5321 §4.2.1 on permanent and transient replies
 */
export function decide(
  result: AttemptResult,
  progress: DeliveryProgress,
  policy: { readonly schedule: RetrySchedule; readonly random: () => number; readonly phrases?: Phrases },
): Outcome {
  const words = describeResult(result);
  if (result.kind === "accepted") return { kind: "delivered", words };
  const verdict = judge(result, policy.phrases);
  if (verdict.final) return { kind: "bounced", words, bounceClass: verdict.bounceClass };
  const decision = decideRetry(progress, policy.schedule, policy.random);
  const { reason } = verdict.bounceClass;
  if (decision.kind === "retry") return { kind: "deferred", words, retryInMs: decision.afterMs, reason };
  return { kind: "bounced", words, bounceClass: { reason: verdict.givenUpAs ?? reason, hard: false } };
}

/** Whom a result concerns: its recipient, every one of the destination, or who of them is not yet known. */
export type Concern = "recipient" | "destination" | "unknown";

/**
 * Whether a result is the same for every recipient of the destination, so that the others need not be tried now.
 * A transient refusal of a recipient is not: who greylists wants to see each recipient once. Once there is a recipient, what
 * sounds like us may be about that mailbox, which gets too much, and a session may end for its sake: others have to be
 * tried (`TroubledDestinations`).
 */
export function concernOf(result: AttemptResult, phrases?: Phrases): Concern {
  if (result.kind === "accepted") return "recipient";
  if (result.kind === "unroutable") return "destination";
  const { failure } = result;
  if (failure.kind === "unsuited" || !mayConcernOthers(failure, phrases)) return "recipient";
  return SESSION_STAGES.has(failure.stage) ? "destination" : "unknown";
}

function mayConcernOthers(failure: Exclude<SmtpFailure, { kind: "unsuited" }>, phrases?: Phrases): boolean {
  if (failure.kind === "broken") return failure.stage !== "message";
  const { reply, stage } = failure;
  if (reply.code === 421) return true;
  if (isOfMailbox(reply, stage)) return false;
  const { aboutUs, reason } = classifyReply(reply, { stage, phrases });
  if (PACE_REASONS.has(reason)) return true;
  // As early as MAIL a message may be refused for its own sake (RFC 1870 §6): others are not concerned.
  return reply.code >= 500 ? aboutUs : SESSION_STAGES.has(stage);
}

/** The steps of a session before there is a recipient. */
export const SESSION_STAGES: ReadonlySet<SmtpStage> = new Set(["connect", "ehlo", "starttls", "auth", "mail"]);
/** The far side wants less of us at a time. */
const PACE_REASONS: ReadonlySet<BounceReason> = new Set(["ratelimited", "toomanyconn", "speeding"]);

function judge(
  result: Exclude<AttemptResult, { kind: "accepted" }>,
  phrases?: Phrases,
): {
  readonly final: boolean;
  readonly bounceClass: BounceClass;
  /** The reason of the bounce, where what was tried until its time was over has another than each attempt. */
  readonly givenUpAs?: BounceReason;
} {
  if (result.kind === "unroutable") {
    return { final: result.reply.code >= 500, bounceClass: classify(result.reply, phrases) };
  }
  const { failure } = result;
  switch (failure.kind) {
    case "broken": {
      // A session that may go on in clear does not fail there.
      if (failure.stage === "starttls") return { final: false, bounceClass: { reason: "failedstarttls", hard: false } };
      return { final: false, bounceClass: { reason: "networkerror", hard: false }, givenUpAs: "expired" };
    }
    case "unsuited":
      return { final: true, bounceClass: { ...classify(failure.reply, phrases), hard: false } };
    case "reply": {
      const { aboutUs, ...bounceClass } = classifyReply(failure.reply, { stage: failure.stage, phrases });
      return { final: failure.reply.code >= 500 && !aboutUs, bounceClass };
    }
  }
}

function classify(reply: SmtpReply, phrases?: Phrases): BounceClass {
  const evidence = { status: reply.enhancedStatus, replycode: reply.code, text: describeSmtpReply(reply) };
  return classifyBounce(evidence, phrases);
}

/** What was replied, and at which step of the session an attempt failed. */
export function replyOf(result: AttemptResult): {
  readonly stage: string;
  readonly code: number;
  readonly status: string;
} {
  const stage = result.kind === "failed" && result.failure.kind !== "unsuited" ? result.failure.stage : "";
  const reply =
    result.kind === "failed" ? ("reply" in result.failure ? result.failure.reply : undefined) : result.reply;
  return { stage, code: reply?.code ?? 0, status: reply?.enhancedStatus ?? "" };
}

/**
 * How an attempt ended, in the far side's words or what stands for them, on one line: only what can be read, without
 * controls (PostgreSQL takes no NUL), and no novels.
 */
export function describeResult(result: AttemptResult): string {
  const words = wordsOf(result);
  return [...words.replace(/[\x00-\x1f\x7f]+/g, " ")].slice(0, MOST_CHARACTERS).join("");
}

function wordsOf(result: AttemptResult): string {
  if (result.kind !== "failed") return describeSmtpReply(result.reply);
  return result.failure.kind === "broken" ? result.failure.text : describeSmtpReply(result.failure.reply);
}

const MOST_CHARACTERS = 1_000;
