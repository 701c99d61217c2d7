import { ok, type Result, refuse } from "../../core/result.ts";

/** What a domain asks of those who send to it. @see RFC 8461 §3.2 */
export interface StsPolicy {
  readonly mode: "enforce" | "testing" | "none";
  /** Names of mail exchangers, in lower case; `*.example.org` stands for any one label. */
  readonly mx: readonly string[];
  readonly maxAgeSeconds: number;
}

const MOST_SECONDS = 31_557_600; // RFC 8461 §3.2: a year

/** The id of a `_mta-sts` record; undefined unless exactly one is there. @see RFC 8461 §3.1 */
export function readStsRecord(texts: readonly string[]): string | undefined {
  const records = texts.filter((text) => /^v=STSv1\s*;/.test(text));
  return records.length === 1 ? /;\s*id=([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(records[0]!)?.[1] : undefined;
}

/** Reads a policy file. @returns refused with a sentence */
export function readStsPolicy(text: string): Result<StsPolicy, string> {
  const fields = text.split(/\r?\n/).flatMap((line) => {
    const [, name, value] = /^([A-Za-z0-9_.-]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    return name === undefined ? [] : [[name, value ?? ""] as const];
  });
  const first = (name: string) => fields.find(([known]) => known === name)?.[1];
  const mode = first("mode");
  const maxAgeSeconds = Number(first("max_age"));
  const mx = fields.filter(([name]) => name === "mx").map(([, value]) => value.toLowerCase());
  if (first("version") !== "STSv1") return refuse("no STSv1 policy");
  if (mode !== "enforce" && mode !== "testing" && mode !== "none") return refuse("unknown mode");
  if (!/^\d{1,10}$/.test(first("max_age") ?? "")) return refuse("no max_age");
  if (mode !== "none" && mx.length === 0) return refuse("no mx");
  return ok({ mode, mx, maxAgeSeconds: Math.min(maxAgeSeconds, MOST_SECONDS) });
}

/** Whether a mail exchanger is one of the policy's. @see RFC 8461 §4.1 */
export function allowsExchanger({ mx }: Pick<StsPolicy, "mx">, exchanger: string): boolean {
  const name = exchanger.toLowerCase().replace(/\.$/, "");
  return mx.some((pattern) =>
    pattern.startsWith("*.")
      ? name.slice(name.indexOf(".") + 1) === pattern.slice(2) && name.includes(".")
      : name === pattern,
  );
}
