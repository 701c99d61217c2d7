/**
 * An enhanced mail system status code, `class.subject.detail` without leading zeros: `"5.1.1"`.
 * The class is 2 (success), 4 (transient) or 5 (permanent).
 * @see RFC 3463 §2
 */
export type EnhancedStatus = `${2 | 4 | 5}.${number}.${number}`;

/**
 * Reads a text that is a status code and nothing else, apart from blanks and a trailing comment
 * (`"5.1.1"`, `"5.1.1 (bad destination mailbox address)"`).
 * @returns undefined when it is none
 * @see RFC 3464 §2.3.4 for the Status field of a delivery report
 */
export function parseEnhancedStatus(text: string): EnhancedStatus | undefined {
  const match = /^\s*([245])\s?\.\s?(\d{1,3})\s?\.\s?(\d{1,3})(?![\d.])/.exec(text);
  return match ? compose(match) : undefined;
}

/**
 * Every status code in running text, in order, such as that of a Diagnostic-Code.
 * Digits that belong to an IP address, a version or a longer number are no codes.
 */
export function findEnhancedStatuses(text: string): EnhancedStatus[] {
  return [...text.matchAll(/(?<![\w./]|(?<!\d{3})-)([245])\.(\d{1,3})\.(\d{1,3})(?![\w./-]*\d|[/@])/g)].map(compose);
}

/**
 * Whether a code says what happened. `X.0.0` only repeats the class.
 * @see RFC 3463 §3.1
 */
export function isSpecific(status: EnhancedStatus): boolean {
  return !status.endsWith(".0.0");
}

/** The class digit: 2 success, 4 transient, 5 permanent. */
export function statusClass(status: EnhancedStatus): 2 | 4 | 5 {
  return Number(status[0]) as 2 | 4 | 5;
}

function compose(match: RegExpMatchArray): EnhancedStatus {
  return `${Number(match[1]) as 2 | 4 | 5}.${Number(match[2])}.${Number(match[3])}`;
}
