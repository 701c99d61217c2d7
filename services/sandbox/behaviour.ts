import type { SandboxOutcome } from "../store/mail/inbound/sandbox-messages.ts";

/** What a mailbox of the sandbox does with mail. */
export type Behaviour =
  /** 550 5.1.1 in the session. */
  | { readonly kind: "reject" }
  /** 451 for the first attempts at a message. */
  | { readonly kind: "defer"; readonly attempts: number }
  | { readonly kind: "take"; readonly outcome: SandboxOutcome };

const BEHAVIOURS: readonly (readonly [prefix: string, behaviour: Behaviour])[] = [
  ["bounce+", { kind: "take", outcome: "bounced" }],
  ["full+", { kind: "take", outcome: "full" }],
  ["complaint+", { kind: "take", outcome: "complained" }],
  ["reject+", { kind: "reject" }],
  ["defer+", { kind: "defer", attempts: 2 }],
];

/** A mailbox behaves by its local part, whatever its case. */
export function behaviourOf(rcptTo: string): Behaviour {
  const localPart = rcptTo.toLowerCase();
  const known = BEHAVIOURS.find(([prefix]) => localPart.startsWith(prefix));
  return known?.[1] ?? { kind: "take", outcome: "accepted" };
}
