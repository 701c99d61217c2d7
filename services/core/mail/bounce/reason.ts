/** Why a message was not delivered (decisions.md §7). */
export const BOUNCE_REASONS = [
  "userunknown",
  "hostunknown",
  "hasmoved",
  "notaccept",
  "mailboxfull",
  "suspend",
  "filtered",
  "rejected",
  "blocked",
  "spamdetected",
  "policyviolation",
  "authfailure",
  "norelaying",
  "notcompliantrfc",
  "securityerror",
  "badreputation",
  "ratelimited",
  "toomanyconn",
  "speeding",
  "requireptr",
  "virusdetected",
  "mesgtoobig",
  "exceedlimit",
  "contenterror",
  "networkerror",
  "systemerror",
  "systemfull",
  "mailererror",
  "expired",
  "failedstarttls",
  "syntaxerror",
  "onhold",
  "vacation",
  "feedback",
  "delivered",
  "undefined",
] as const;

export type BounceReason = (typeof BOUNCE_REASONS)[number];

/** What an operator may say that words mean: every reason that a refusal has. */
export const OWN_REASONS: readonly BounceReason[] = BOUNCE_REASONS.filter(
  (reason) => !["vacation", "feedback", "delivered", "undefined"].includes(reason),
);

/** The SMTP command that a reply answered; `connect` stands for everything before MAIL FROM. */
export const SMTP_COMMANDS = ["connect", "mail", "rcpt", "data"] as const;

export type SmtpCommand = (typeof SMTP_COMMANDS)[number];
