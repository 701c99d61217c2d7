import type { AcceptedSend, SendOutcome } from "../../services/operations/mail/accept-sends.ts";

/** What became of a send that nothing speaks against. */
export function accepted(outcome: SendOutcome): AcceptedSend {
  if (!outcome.ok) throw new Error(`refused: ${outcome.error.kind}`);
  return outcome.value;
}
