import type { HostPort } from "../config/config-values.ts";

/** A message as a receiver would get it. */
export interface JudgedMail {
  /** CRLF lines, signed. */
  readonly octets: Buffer;
  /** The address that it would come from, and what that calls itself. */
  readonly clientAddress: string;
  readonly helo: string;
  readonly mailFrom: string;
  readonly rcptTo: string;
}

/** Something that a judge holds against a message. */
export interface Objection {
  readonly rule: string;
  readonly points: number;
  /** The judge's words. */
  readonly words: string;
}

/** Whether the sender is who it says: undefined where the judge does not look. */
export interface Authenticated {
  readonly spf?: boolean;
  readonly dkim?: boolean;
  readonly dmarc?: boolean;
}

export const JUDGES = ["rspamd", "spamassassin", "authheaders"] as const;
export type JudgeName = (typeof JUDGES)[number];

export type Verdict =
  | {
      readonly judge: JudgeName;
      readonly kind: "judged";
      /** Points, of a judge that gives them: the more the worse. */
      readonly score?: number;
      readonly authenticated: Authenticated;
      /** Names of all rules that were met. */
      readonly rules: readonly string[];
      /** The worst first. */
      readonly objections: readonly Objection[];
    }
  /** It is not installed. */
  | { readonly judge: JudgeName; readonly kind: "absent" }
  | { readonly judge: JudgeName; readonly kind: "failed"; readonly words: string };

/** What judges work with. */
export interface JudgeSurroundings {
  /** Whom they ask for records; null: the system's resolver. */
  readonly resolver: HostPort | null;
  /** A folder of theirs: rspamd keeps there what takes it long to make. */
  readonly folder: string;
}

/** Objections of those rules that cost something. */
export function objectionsOf(rules: readonly Objection[]): Objection[] {
  return rules.filter(({ points }) => points > 0).sort((a, b) => b.points - a.points);
}
