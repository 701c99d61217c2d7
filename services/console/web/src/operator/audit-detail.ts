import type { Sentence } from "../../../../core/sentences.ts";
import { describeReason } from "../problem-words.ts";
import { texts } from "../texts.ts";

type Words = Readonly<Record<string, string>>;

/** With what something was changed, in words; what was left empty is not told. */
export function describeDetail(detail: Readonly<Record<string, unknown>>): string {
  const fields: Words = texts().operator.audit.fields;
  return Object.entries(detail)
    .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => `${fields[name] ?? name}: ${shown(name, value)}`)
    .join(", ");
}

function shown(name: string, value: unknown): string {
  const { operator, shell } = texts();
  if (String(value) === "true") return shell.yes;
  if (String(value) === "false") return shell.no;
  if (name === "at" && value === "now") return operator.audit.atOnce;
  if (typeof value === "string") return name === "role" ? ((shell.roles as Words)[value] ?? value) : value;
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(" ");
  return "code" in value ? describeReason(value as Sentence) : JSON.stringify(value);
}
