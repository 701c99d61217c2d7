/** What was reported about a domain within a time that is looked at. */
interface ReportedMail {
  /** `p` of the record that receivers saw last; empty: none was reported. */
  readonly policy: string;
  /** Days on which something was reported. */
  readonly days: number;
  readonly messages: number;
  /** Of those: from sources that sent with success as well, or that are services that many use. */
  readonly failingOfSenders: number;
}

type ProposedPolicy = "quarantine" | "reject";

/** The policy that may come next, or what is missing for it. */
export type PolicyProposal =
  | { readonly kind: "ready"; readonly policy: ProposedPolicy }
  | {
      readonly kind: "wait";
      readonly policy: ProposedPolicy;
      readonly because: "few-days" | "few-messages" | "failing";
    }
  /** There is no stricter one. */
  | { readonly kind: "strictest" }
  /** Nothing was reported yet. */
  | { readonly kind: "unknown" };

const PROPOSAL_RULE = {
  /** Least days with reports. */
  days: 21,
  /** Least messages in them. */
  messages: 100,
  /** Most of these that may fail although their sender is one of the domain's, as a share. */
  failingShare: 0.001,
} as const;

/** Proposes the next stricter policy once a domain's own mail has passed for long enough. */
export function proposePolicy({ policy, days, messages, failingOfSenders }: ReportedMail): PolicyProposal {
  if (policy === "") return { kind: "unknown" };
  if (policy === "reject") return { kind: "strictest" };
  const next: ProposedPolicy = policy === "quarantine" ? "reject" : "quarantine";
  const wait = (because: "few-days" | "few-messages" | "failing") => ({ kind: "wait", policy: next, because }) as const;
  if (failingOfSenders > messages * PROPOSAL_RULE.failingShare) return wait("failing");
  if (days < PROPOSAL_RULE.days) return wait("few-days");
  if (messages < PROPOSAL_RULE.messages) return wait("few-messages");
  return { kind: "ready", policy: next };
}
