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
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { insertExpiry, readExpiry } from "../../store/dns/rpz-feeds.ts";
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

/** The feed after a rule was to be added; not changed when it had the rule already, which keeps its expiry. */
export interface RuleAdded {
  readonly feed: Zone;
  readonly changed: boolean;
  readonly expiresAt: Date | null;
}

/**
 * Adds a rule. The identical rule again changes nothing. Refuses a trigger that has another action, one that covers a
 * safe name, and one that BIND passes over.
 */
export function addRule(
  db: Db,
  apex: DomainName,
  { trigger, action, expiresAt }: NewRule,
  actor: string,
): Promise<Result<RuleAdded, Refusal>> {
  return withLockedFeed<RuleAdded>(db, apex, async (transaction, feed) => {
    const passedOver = whyPassedOver(trigger);
    if (passedOver) return refuse(unacceptable(passedOver));
    const safe = (await readSafeNames(transaction)).coveredBy(trigger);
    if (safe) return refuse(unacceptable(coversSafeName(trigger, safe)));
    const record = ruleRecord(trigger, action, feed.apex);
    if (!record.ok) return refuse(unacceptable(record.error));
    const existing = await readRecordsAt(transaction, feed.id, [record.value.owner]);
    const comparison = compareRule(existing, record.value);
    if (comparison.kind === "duplicate") {
      return ok({ feed, changed: false, expiresAt: await readExpiry(transaction, comparison.of.id) });
    }
    if (comparison.kind === "conflict") {
      const has = showRpzRecord(comparison.with, feed.apex).action;
      return refuse(unacceptable("rule-exists", { trigger: formatRpzTrigger(trigger), action: has }));
    }
    const rows = { created: [record.value], deleted: [], triggers: existing.length === 0 ? 1 : 0 };
    const changed = await changeFeed(transaction, feed, rows, actor);
    const [recordId] = changed.createdIds;
    if (expiresAt) await insertExpiry(transaction, { recordId: recordId!, zoneId: feed.id, expiresAt });
    return ok({ feed: changed.feed, changed: true, expiresAt });
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

export function coversSafeName(trigger: RpzTrigger, safe: DomainName): Sentence {
  return sentence("covers-safe-name", {
    trigger: formatRpzTrigger(trigger),
    name: formatDomainName(safe).slice(0, -1),
  });
}
