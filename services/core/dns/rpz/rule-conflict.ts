import { type ResourceRecord, recordIdentity } from "../record.ts";
import { TYPE } from "../rr-types.ts";

/** What stands at a trigger, against a rule that is to be added there. */
export type RuleComparison<Existing extends ResourceRecord> =
  | { readonly kind: "new" }
  | { readonly kind: "duplicate"; readonly of: Existing }
  | { readonly kind: "conflict"; readonly with: Existing };

/**
 * Whether a rule may be added: a trigger has one action, but local data may be several records, which a CNAME excludes
 * (draft-vixie-dnsop-dns-rpz §3: the actions are CNAMEs themselves; RFC 1034 §3.6.2).
 * @param existing all records at the trigger's owner
 */
export function compareRule<Existing extends ResourceRecord>(
  existing: readonly Existing[],
  wanted: ResourceRecord,
): RuleComparison<Existing> {
  if (existing.length === 0) return { kind: "new" };
  const identity = recordIdentity(wanted);
  const same = existing.find((record) => recordIdentity(record) === identity);
  if (same) return { kind: "duplicate", of: same };
  const obstacle = existing.find(({ type }) => type === TYPE.CNAME || wanted.type === TYPE.CNAME);
  return obstacle ? { kind: "conflict", with: obstacle } : { kind: "new" };
}
