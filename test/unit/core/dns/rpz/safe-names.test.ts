import { describe, expect, it } from "vitest";
import {
  type DomainName,
  isSubdomain,
  isWildcard,
  parentOf,
  parseDomainName,
} from "../../../../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../../../../services/core/dns/record.ts";
import { compareRule } from "../../../../../services/core/dns/rpz/rule-conflict.ts";
import { parseRpzAction, parseRpzTrigger, type RpzTrigger } from "../../../../../services/core/dns/rpz/rules.ts";
import { SafeNames } from "../../../../../services/core/dns/rpz/safe-names.ts";
import { ruleRecord } from "../../../../../services/operations/dns/rpz-rules.ts";
import { fc } from "../../../../support/property.ts";

function nameOf(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}

function triggerOf(text: string): RpzTrigger {
  const trigger = parseRpzTrigger(text);
  if (!trigger.ok) throw new Error(trigger.error.message);
  return trigger.value;
}

function recordOf(trigger: string, action: string): ResourceRecord {
  const read = parseRpzAction(action);
  if (!read.ok) throw new Error(read.error.message);
  const record = ruleRecord(triggerOf(trigger), read.value, nameOf("policy.example"));
  if (!record.ok) throw new Error(record.error.message);
  return record.value;
}

/** Whether the rule reaches a safe name, or a name below it. */
function covers(trigger: RpzTrigger, safe: DomainName): boolean {
  if (!("name" in trigger)) return false;
  const { name } = trigger;
  if (isSubdomain(name, safe)) return true;
  return isWildcard(name) && isSubdomain(safe, parentOf(name)!) && safe.labelCount >= name.labelCount;
}

describe("safe names", () => {
  const safe = new SafeNames([nameOf("www.bank.example"), nameOf("Shop.example")]);

  it.each([
    ["qname:www.bank.example", "www.bank.example"],
    ["qname:WWW.bank.example", "www.bank.example"],
    ["qname:a.b.www.bank.example", "www.bank.example"],
    ["qname:*.bank.example", "www.bank.example"],
    ["qname:*.www.bank.example", "www.bank.example"],
    ["qname:*", "www.bank.example"],
    ["nsdname:shop.example", "shop.example"],
    ["qname:bank.example", undefined],
    ["qname:*.shop2.example", undefined],
    ["qname:notshop.example", undefined],
    ["ip:192.0.2.1", undefined],
  ])("%s covers %s", (trigger, name) => {
    const covered = safe.coveredBy(triggerOf(trigger));
    if (name === undefined) expect(covered).toBeUndefined();
    else if (trigger === "qname:*") expect(covered).toBeDefined();
    else expect(covered?.key).toBe(nameOf(name).key);
  });

  it("says what looking at each name says", () => {
    const label = fc.constantFrom("a", "b", "c");
    const text = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join("."));
    const trigger = fc.tuple(fc.boolean(), text).map(([wild, name]) => triggerOf(`qname:${wild ? "*." : ""}${name}`));
    fc.assert(
      fc.property(trigger, fc.array(text.map(nameOf), { maxLength: 4 }), (given, names) => {
        const covered = new SafeNames(names).coveredBy(given) !== undefined;
        expect(covered).toBe(names.some((name) => covers(given, name)));
      }),
    );
  });
});

describe("rules at one trigger", () => {
  const at = (action: string) => recordOf("qname:bad.example", action);

  it.each([
    [[], "nxdomain", "new"],
    [["nxdomain"], "nxdomain", "duplicate"],
    [["nxdomain"], "nodata", "conflict"],
    [["nxdomain"], "A 192.0.2.1", "conflict"],
    [["A 192.0.2.1"], "passthru", "conflict"],
    [["A 192.0.2.1"], "A 192.0.2.2", "new"],
    [["A 192.0.2.1"], "TXT blocked", "new"],
    [["A 192.0.2.1", "TXT blocked"], "A 192.0.2.1", "duplicate"],
    [["CNAME garden.example"], "CNAME Garden.Example", "duplicate"],
    [["CNAME garden.example"], "CNAME other.example", "conflict"],
  ] as const)("%j, then %s: %s", (existing, wanted, kind) => {
    expect(compareRule(existing.map(at), at(wanted)).kind).toBe(kind);
  });
});
