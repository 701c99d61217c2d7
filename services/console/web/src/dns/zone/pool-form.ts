import { linesOf } from "../../lines.ts";
import { wholeNumber } from "../../typed-number.ts";
import type { Pool, PoolMember } from "./follower.ts";

/** As the fields of the form have them. */
export type PoolValues = {
  readonly name: string;
  readonly members: string;
  readonly rule: string;
  readonly type: string;
  readonly port: string;
  readonly interval: string;
  readonly path: string;
  readonly question: string;
};

/** @param pool the one to change; a new one when absent */
export function valuesOf(pool: Pool | undefined): PoolValues {
  if (!pool) {
    return { name: "", members: "", rule: "all", type: "tcp", port: "80", interval: "10", path: "/", question: "" };
  }
  const { name, rule, members, check } = pool;
  return {
    ...{ name, rule, members: members.map(lineOf).join("\n") },
    type: check?.type ?? "none",
    port: String(check?.port ?? 80),
    interval: String(check?.interval ?? 10),
    path: check?.path ?? "/",
    question: check?.question ?? "",
  };
}

/** What the API is asked for: what the form does not show stays as it was, and what is no number the API refuses. */
export function fieldsOf({ members, rule, type, port, interval, path, question }: PoolValues, current?: Pool) {
  const check = {
    ...(current?.check?.type === type && current.check),
    ...{ type, port: wholeNumber(port), interval: wholeNumber(interval) },
    ...(type.startsWith("http") && { path }),
    ...(type === "dns" && { question }),
  };
  const known = new Map(current?.members.map((member) => [member.value, member]));
  return {
    rule,
    members: linesOf(members).map((line) => memberOf(line, known)),
    check: type === "none" ? null : check,
  };
}

const lineOf = ({ value, weight, priority }: PoolMember) => `${value} ${weight} ${priority}`;

/** A line: the value, then a weight and a priority where they matter. */
function memberOf(line: string, known: ReadonlyMap<string, PoolMember>) {
  const [value = "", weight, ...priority] = line.trim().split(/\s+/);
  return {
    ...known.get(value),
    value,
    ...(weight !== undefined && { weight: wholeNumber(weight) }),
    ...(priority.length > 0 && { priority: wholeNumber(priority.join(" ")) }),
  };
}
