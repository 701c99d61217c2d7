import { type DomainName, formatDomainName } from "../../core/dns/name.ts";
import { canonicalRdata, type ResourceRecord } from "../../core/dns/record.ts";
import { compareRule } from "../../core/dns/rpz/rule-conflict.ts";
import {
  encodeRpzRule,
  formatRpzTrigger,
  type RpzAction,
  type RpzTrigger,
  readRuleOwner,
  showRpzRecord,
  whyPassedOver,
} from "../../core/dns/rpz/rules.ts";
import type { SafeNames } from "../../core/dns/rpz/safe-names.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { setExpiry } from "../../store/dns/rpz-feeds.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { changeFeed, removeFeedRecords, withLockedFeed } from "./rpz-feeds.ts";
import { readSafeNames } from "./rpz-safe-names.ts";

/** A rule to be added. */
export interface NewRule {
  readonly trigger: RpzTrigger;
  readonly action: RpzAction;
  /** When it goes by itself; null: never. */
  readonly expiresAt: Date | null;
}

/** The feed after a rule was to be added; not changed when it had the rule already. */
export interface RuleAdded {
  readonly feed: Zone;
  readonly changed: boolean;
}

/**
 * Adds a rule, or sets when one that is there goes by itself, which leaves the feed as it is. Refuses a trigger that has
 * another action, and one of which no rule may be.
 */
export function addRule(
  db: Db,
  apex: DomainName,
  { trigger, action, expiresAt }: NewRule,
  actor: string,
): Promise<Result<RuleAdded, Refusal>> {
  return withLockedFeed<RuleAdded>(db, apex, async (transaction, feed) => {
    const obstacle = obstacleTo(trigger, await readSafeNames(transaction));
    if (obstacle) return refuse(unacceptable(obstacle));
    const record = ruleRecord(trigger, action, feed.apex);
    if (!record.ok) return refuse(unacceptable(record.error));
    const existing = await readRecordsAt(transaction, feed.id, [record.value.owner]);
    const comparison = compareRule(existing, record.value);
    if (comparison.kind === "duplicate") {
      await setExpiry(transaction, { recordId: comparison.of.id, zoneId: feed.id, expiresAt });
      return ok({ feed, changed: false });
    }
    if (comparison.kind === "conflict") {
      const has = showRpzRecord(comparison.with, feed.apex).action;
      return refuse(unacceptable("rule-exists", { trigger: formatRpzTrigger(trigger), action: has }));
    }
    const rows = { created: [record.value], deleted: [], triggers: existing.length === 0 ? 1 : 0 };
    const changed = await changeFeed(transaction, feed, rows, actor);
    const [recordId] = changed.createdIds;
    await setExpiry(transaction, { recordId: recordId!, zoneId: feed.id, expiresAt });
    return ok({ feed: changed.feed, changed: true });
  });
}

/** A feed after all went that a trigger did, and that trigger in the form that lists show. */
export interface RuleRemoved {
  readonly feed: Zone;
  readonly trigger: string;
}

/** Removes all that a trigger does; refuses one that has no rule. @param text as `readRuleOwner` takes it */
export function removeRule(
  db: Db,
  apex: DomainName,
  text: string,
  actor: string,
): Promise<Result<RuleRemoved, Refusal>> {
  return withLockedFeed<RuleRemoved>(db, apex, async (transaction, feed) => {
    const at = readRuleOwner(text, feed.apex);
    if (!at.ok) return refuse(invalidField("trigger", at.error));
    const { owner, trigger } = at.value;
    const existing = await readRecordsAt(transaction, feed.id, [owner]);
    if (existing.length === 0) return refuse(unacceptable("no-such-rule", { trigger }));
    return ok({ feed: await removeFeedRecords(transaction, feed, existing, actor), trigger });
  });
}

/** The record of a rule as it is stored: canonical, so that equal rules are equal octets. */
export function ruleRecord(trigger: RpzTrigger, action: RpzAction, apex: DomainName): Result<ResourceRecord, Sentence> {
  const record = encodeRpzRule(trigger, action, apex);
  if (!record.ok || action.kind !== "local-data") return record;
  const { type, rdata } = record.value;
  return ok({ ...record.value, rdata: canonicalRdata(type, rdata) });
}

/** Why no rule of the trigger may be: it would reach a safe name or localhost, or be passed over. */
export function obstacleTo(trigger: RpzTrigger, safeNames: SafeNames): Sentence | undefined {
  const text = formatRpzTrigger(trigger);
  const safe = safeNames.coveredBy(trigger);
  if (safe) return sentence("covers-safe-name", { trigger: text, name: formatDomainName(safe).slice(0, -1) });
  // RFC 6761 §6.3: localhost and what is below it always mean the host itself.
  const isLocalhost = "name" in trigger && trigger.name.key.endsWith("\x09localhost\0");
  return isLocalhost ? sentence("blocked-name", { text }) : whyPassedOver(trigger);
}
