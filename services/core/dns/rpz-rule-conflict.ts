import { type ResourceRecord, recordIdentity } from "./record.ts";
import { TYPE } from "./rr-types.ts";

/** What stands at a trigger, against a rule that is to be added there. */
export type RuleComparison =
  | { readonly kind: "new" }
  | { readonly kind: "duplicate" }
  | { readonly kind: "conflict"; readonly with: ResourceRecord };

/**
 * Whether a rule may be added: a trigger has one action, but local data may be several records, which a CNAME excludes
 * (draft-vixie-dnsop-dns-rpz §3: the actions are CNAMEs themselves; RFC 1034 §3.6.2).
 * @param existing all records at the trigger's owner
 */
export function compareRule(existing: readonly ResourceRecord[], wanted: ResourceRecord): RuleComparison {
  if (existing.length === 0) return { kind: "new" };
  const identity = recordIdentity(wanted);
  if (existing.some((record) => recordIdentity(record) === identity)) return { kind: "duplicate" };
  const obstacle = existing.find(({ type }) => type === TYPE.CNAME || wanted.type === TYPE.CNAME);
  return obstacle ? { kind: "conflict", with: obstacle } : { kind: "new" };
}
