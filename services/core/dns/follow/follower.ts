import { z } from "zod";
import { invalidField, type Refusal } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";
import { formatIpAddress, parseIpAddress } from "../ip-address.ts";
import { type DomainName, formatDomainName, isSubdomain, nameFromStoredText, parseDomainName } from "../name.ts";
import { TYPE } from "../rr-types.ts";
import { checkRecordType } from "../zone-checks.ts";
import { healthCheck } from "./health-check.ts";

/**
 * Names whose addresses follow something: another name (an alias), or the health of some members (a pool). What they
 * follow is kept with the zone; their A and AAAA records are derived from it and are ordinary records of the zone.
 */
export type Follower =
  | { readonly owner: DomainName; readonly kind: "alias"; readonly definition: AliasDefinition }
  | { readonly owner: DomainName; readonly kind: "pool"; readonly definition: PoolDefinition };
export type FollowerKind = Follower["kind"];

/** A follower with the id by which the API knows it. */
export type StoredFollower = Follower & { readonly id: number };

/** The types of the records that a follower's name has from it, and from nobody else. */
export const FOLLOWED_TYPES: readonly number[] = [TYPE.A, TYPE.AAAA];

/** So many addresses of a type a follower has at most: an RRset of more is no use to anybody. */
export const MOST_ADDRESSES = 32;

const MOST_MEMBERS = 32;
const LONGEST_VALUE = 1_020;

/** The name that an alias follows, absolute, as it is stored. */
export const aliasDefinition = z.object({ target: z.string() });
export type AliasDefinition = z.output<typeof aliasDefinition>;

const member = z.object({
  name: z
    .string()
    .regex(/^[A-Za-z0-9._:-]{1,64}$/, "pool-member-name-form")
    .optional()
    .meta({ description: "among the members of the pool; its value unless given" }),
  value: z.string().min(1, "not-empty").max(LONGEST_VALUE, "too-long-for-a-name").meta({
    description: "an address, or a name whose addresses it has",
  }),
  weight: z.int("whole-number").min(1, "at-least").max(65_535, "not-above").default(1),
  priority: z.int("whole-number").min(0, "not-negative").max(65_535, "not-above").default(0),
  drain: z.boolean("true-or-false").default(false).meta({ description: "given to nobody, however healthy" }),
  check: healthCheck.nullable().optional().meta({ description: "in place of the pool's; null: none" }),
});

/** What a pool is, apart from its name. */
export const poolDefinition = z.object({
  ttl: z.int("whole-number-of-seconds").min(1, "at-least").max(86_400, "not-above").default(30),
  rule: z
    .enum(["all", "priority", "weighted"], "one-of")
    .default("all")
    .meta({ description: "all healthy members, those of the first priority, or some of them by weight" }),
  answers: z
    .int("whole-number")
    .min(1, "at-least")
    .max(MOST_MEMBERS, "not-above")
    .default(1)
    .meta({ description: "weighted: members that are given at a time" }),
  rotate: z
    .int("whole-number-of-seconds")
    .min(60, "at-least")
    .max(86_400, "not-above")
    .default(300)
    .meta({ description: "weighted: seconds until others are given, each for a time after its weight" }),
  minimum: z
    .int("whole-number")
    .min(0, "not-negative")
    .max(MOST_MEMBERS, "not-above")
    .default(1)
    .meta({ description: "with fewer healthy members than this, all are given as if they were" }),
  members: z.array(member).min(1, "not-empty").max(MOST_MEMBERS, "too-many-entries"),
  check: healthCheck.nullable().default(null),
});
export type PoolDefinition = z.output<typeof poolDefinition>;
export type PoolMember = PoolDefinition["members"][number];

/** A pool's definition with each value in its one spelling, and each member with a name of its own. */
export function readPool(given: PoolDefinition, owner: DomainName, apex: DomainName): Result<PoolDefinition, Refusal> {
  const members: PoolMember[] = [];
  const names = new Set<string>();
  for (const [index, one] of given.members.entries()) {
    const field = `members[${index}]`;
    const value = readMemberValue(one.value, apex);
    if (value === undefined) return refuse(invalidField(`${field}.value`, "pool-member-value-form"));
    if (value === absoluteText(owner)) return refuse(invalidField(`${field}.value`, "alias-loop"));
    const name = one.name ?? value.replace(/\.$/, "").slice(0, 64);
    if (names.has(name)) return refuse(invalidField(`${field}.name`, "pool-member-twice", { member: name }));
    names.add(name);
    members.push({ ...one, name, value });
  }
  return ok({ ...given, members });
}

/** An alias's definition; the target may be relative to the apex, and is no name of its own. */
export function readAlias(target: string, owner: DomainName, apex: DomainName): Result<AliasDefinition, Refusal> {
  if (parseAddress(target) !== undefined) return refuse(invalidField("target", "name-not-address"));
  const name = parseDomainName(target, apex);
  if (!name.ok) return refuse(invalidField("target", name.error));
  if (name.value.key === owner.key) return refuse(invalidField("target", "alias-loop"));
  return ok({ target: absoluteText(name.value) });
}

/** The names that a follower's addresses come from. */
export function targetsOf(follower: Follower): DomainName[] {
  const texts =
    follower.kind === "alias"
      ? [follower.definition.target]
      : follower.definition.members.flatMap(({ value }) => (value.endsWith(".") ? [value] : []));
  return texts.map(nameFromStoredText);
}

/** A zone has followers at its own names alone, and a reverse zone, which has no addresses, none. */
export function checkOwner(owner: DomainName, apex: DomainName): Result<void, Sentence> {
  if (!isSubdomain(owner, apex)) return refuse(sentence("outside-zone", { owner: formatDomainName(owner) }));
  return checkRecordType(apex, TYPE.A);
}

/** An address in its one spelling; undefined when the text is none. */
export function parseAddress(text: string): string | undefined {
  const octets = parseIpAddress(text);
  return octets && formatIpAddress(octets);
}

/** A name in the form in which definitions have it: absolute, lower case. */
export function absoluteText(name: DomainName): string {
  return formatDomainName(name).toLowerCase();
}

function readMemberValue(text: string, apex: DomainName): string | undefined {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const name = parseDomainName(text, apex);
  return name.ok ? absoluteText(name.value) : undefined;
}
