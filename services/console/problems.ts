import type { Refusal } from "../core/refusal.ts";

/**
 * What the console refuses by itself: a name that stays what it is, by which the pages say it in their reader's language,
 * and the sentence for everybody else, with gaps as `{name}`.
 */
export const PROBLEMS = {
  "no-such-reseller": ["not-found", "no such reseller"],
  "no-such-company": ["not-found", "no such company"],
  "no-such-instance": ["not-found", "no such instance"],
  "no-such-user": ["not-found", "no such user"],
  "no-such-session": ["not-found", "no such session"],
  "no-such-job": ["not-found", "no such job"],
  "no-such-acl": ["not-found", "no such ACL"],
  "no-such-block": ["not-found", "no such block"],
  "no-such-catalog": ["not-found", "no such catalog"],
  "no-such-feed": ["not-found", "no such feed"],
  "no-such-campaign": ["not-found", "no such campaign"],
  "no-such-batch": ["not-found", "no such batch"],
  "no-such-message": ["not-found", "no such message"],
  "no-such-quarantined": ["not-found", "no such message in quarantine"],
  "no-such-contact": ["not-found", "no such contact"],
  "no-such-member": ["not-found", "no such contact in this group"],
  "no-such-group": ["not-found", "no such group"],
  "no-such-filter": ["not-found", "no such filter"],
  "no-such-webhook": ["not-found", "no such webhook"],
  "no-such-delivery": ["not-found", "no such delivery"],
  "no-such-sender-domain": ["not-found", "no such sender domain"],
  "not-yours": ["forbidden", "this is not yours to see"],
  "csrf-wrong": ["forbidden", "csrf token missing or wrong"],
  "cross-site": ["forbidden", "sign in from the console's own page"],
  "code-needs-session": ["forbidden", "this account uses one-time codes: sign in with a session"],
  "users-of-companies-only": ["forbidden", "you may add accounts for your own companies"],
  "operators-setting": ["forbidden", "{setting} is the operator's to change"],
  "no-rpz-licence": ["forbidden", "this needs an RPZ feed licence"],
  "records-not-allowed": ["forbidden", "the operator has not allowed this instance to create records"],
  "password-wrong": ["unacceptable", "the password is wrong"],
  "totp-in-use": ["unacceptable", "one-time codes are in use already: remove them first"],
  "totp-not-begun": ["unacceptable", "make a secret first"],
  "totp-code-wrong": ["unacceptable", "the code is wrong: look at the device's clock"],
  "user-exists": ["unacceptable", "user {login} already exists"],
  "own-account": ["unacceptable", "nobody deletes the own account"],
  "last-operator": ["unacceptable", "the last operator must stay"],
  "reseller-exists": ["unacceptable", "reseller {id} already exists"],
  "instance-name-taken": ["unacceptable", "an instance of this name already exists"],
  "instance-host-taken": ["unacceptable", "another instance has this host"],
  "instance-key-taken": ["unacceptable", "another instance has this key"],
  "sender-domain-exists": ["unacceptable", "{instance} has {domain} already"],
  "not-hosted-here": ["unacceptable", "{domain} is not hosted here: create the records where it is"],
  "primary-needed": ["unacceptable", "the server listens on all addresses: give primary=host:port"],
  "dns-server-silent": ["unacceptable", "the DNS server at {server} did not answer in time"],
  "dns-server-broken": ["unacceptable", "the DNS server at {server} gave an answer that is none"],
  "filter-exists": ["conflict", "there is a filter of that name"],
  "campaign-of-the-api": ["conflict", "a campaign of type {type} is sent by the mail API"],
  "campaign-started": ["conflict", "the campaign was started already"],
  "campaign-not-written": ["conflict", "the message is not written yet"],
  "campaign-not-under-way": ["conflict", "it is not under way"],
  "campaign-not-paused": ["conflict", "it is not paused"],
  "campaign-over": ["conflict", "it is over, or was never written"],
} as const satisfies Readonly<Record<string, readonly [kind: Sentence["kind"], text: string]>>;

type Sentence = Extract<Refusal, { readonly text: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** A refusal of the console's own. @param values what fills the sentence's gaps */
export function problem(code: ProblemCode, values: Readonly<Record<string, string>> = {}): Refusal {
  const [kind, text] = PROBLEMS[code];
  const filled = text.replace(/\{(\w+)\}/g, (gap, name: string) => values[name] ?? gap);
  return { kind, text: filled, code, values };
}
