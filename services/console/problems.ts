import type { Refusal, SentenceRefusal } from "../core/refusal.ts";
import { type SentenceCode, sentence, type ValuesOf } from "../core/sentences.ts";

/** What the console refuses by itself, and what kind of refusal it is. The pages say it in their reader's language. */
export const PROBLEMS = {
  "no-such-reseller": "not-found",
  "no-such-company": "not-found",
  "no-such-instance": "not-found",
  "no-such-user": "not-found",
  "no-such-session": "not-found",
  "no-such-job": "not-found",
  "no-such-acl": "not-found",
  "no-such-block": "not-found",
  "no-such-catalog": "not-found",
  "no-such-feed": "not-found",
  "no-such-campaign": "not-found",
  "no-such-batch": "not-found",
  "no-such-message": "not-found",
  "no-such-quarantined": "not-found",
  "no-such-wording": "not-found",
  "no-such-contact": "not-found",
  "no-such-member": "not-found",
  "no-such-group": "not-found",
  "no-such-filter": "not-found",
  "no-such-webhook": "not-found",
  "no-such-delivery": "not-found",
  "no-such-suppression": "not-found",
  "no-such-sender-domain": "not-found",
  "not-yours": "forbidden",
  "csrf-wrong": "forbidden",
  "cross-site": "forbidden",
  "code-needs-session": "forbidden",
  "users-of-companies-only": "forbidden",
  "operators-setting": "forbidden",
  "no-rpz-licence": "forbidden",
  "records-not-allowed": "forbidden",
  "password-wrong": "unacceptable",
  "totp-in-use": "unacceptable",
  "totp-not-begun": "unacceptable",
  "totp-code-wrong": "unacceptable",
  "user-exists": "unacceptable",
  "own-account": "unacceptable",
  "last-operator": "unacceptable",
  "reseller-exists": "unacceptable",
  "instance-name-taken": "unacceptable",
  "instance-host-taken": "unacceptable",
  "instance-key-taken": "unacceptable",
  "sender-domain-exists": "unacceptable",
  "not-hosted-here": "unacceptable",
  "primary-needed": "unacceptable",
  "dns-server-silent": "unacceptable",
  "dns-server-broken": "unacceptable",
  "rotation-begun": "conflict",
  "filter-exists": "conflict",
  "webhooks-many": "conflict",
  "suppression-whitelisted": "conflict",
  "suppression-own": "conflict",
  "campaign-of-the-api": "conflict",
  "campaign-started": "conflict",
  "campaign-not-written": "conflict",
  "campaign-not-under-way": "conflict",
  "campaign-not-paused": "conflict",
  "campaign-over": "conflict",
  "message-settled": "conflict",
  "message-on-its-way": "conflict",
} as const satisfies Readonly<Partial<Record<SentenceCode, SentenceRefusal["kind"]>>>;

export type ProblemCode = keyof typeof PROBLEMS;

/** A refusal of the console's own. @param values what fills the sentence's gaps */
export function problem<Code extends ProblemCode>(code: Code, ...values: ValuesOf<Code>): Refusal {
  const kind: SentenceRefusal["kind"] = PROBLEMS[code];
  return { kind, ...sentence(code, ...values) };
}
