import { z } from "zod";
import {
  checkOwner,
  type Follower,
  type FollowerKind,
  type PoolDefinition,
  parseAddress,
  poolDefinition,
  readAlias,
  readPool,
  type StoredFollower,
} from "../core/dns/follow/follower.ts";
import type { FollowerEdits } from "../core/dns/follow/follower-edits.ts";
import { type DomainName, formatRelative, parseDomainName } from "../core/dns/name.ts";
import { invalidField, type Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { isPublishable } from "../platform/lookups/address-blocks.ts";
import type { ListedFollower } from "../store/dns/followers.ts";
import { nameText, tellSentence, toldSentence } from "./schemas.ts";

export const aliasFields = z.object({ name: nameText, target: nameText });
export const poolFields = poolDefinition.extend({ name: nameText });
const { name: _name, ...definitionShape } = poolFields.shape;

/** Of a pool, or of a member, null is a value: it is checked no more, or not as its pool is. */
export const keepsCheck = (path: readonly (string | number)[]) => path.at(-1) === "check";

/** Every field by itself: what is absent stays. Defaults are those of new pools alone. */
const poolChanges = z.object({
  ttl: definitionShape.ttl.unwrap().optional(),
  rule: definitionShape.rule.unwrap().optional(),
  answers: definitionShape.answers.unwrap().optional(),
  rotate: definitionShape.rotate.unwrap().optional(),
  minimum: definitionShape.minimum.unwrap().optional(),
  members: definitionShape.members.optional(),
  check: definitionShape.check.unwrap().optional(),
});

const followerId = z.int("whole-number").positive("not-negative");

/** Changes of many aliases and pools that come into force together, beside those of records. */
export const aliasBatch = z.object({
  create: z.array(aliasFields).default([]),
  modify: z.array(z.object({ alias_id: followerId, target: nameText })).default([]),
  delete: z.array(followerId).default([]),
});
export const poolBatch = z.object({
  create: z.array(poolFields).default([]),
  modify: z.array(poolChanges.extend({ pool_id: followerId })).default([]),
  delete: z.array(followerId).default([]),
});

const listed = {
  name: z.string(),
  a: z.array(z.string()),
  aaaa: z.array(z.string()),
  problem: toldSentence.nullable().meta({ description: "why it has not what it should have" }),
};

/** What a change did to aliases and pools, each as it is defined. */
const changedFollower = z.looseObject({ name: z.string(), kind: z.enum(["alias", "pool"]) });
export const changedFollowers = z
  .object({ deleted: z.array(changedFollower), added: z.array(changedFollower) })
  .optional()
  .meta({ description: "aliases and pools that became others, where some did" });

export const aliasReply = z.object({
  alias_id: z.int(),
  ...listed,
  target: z.string(),
  ttl: z.int(),
  answered: z.string().nullable().meta({ description: "when a resolver told of the target last" }),
});

export const poolReply = z.object({ pool_id: z.int(), ...listed, ...poolDefinition.shape });

/** What the fields of a request are read against. */
export interface FollowerReading {
  readonly apex: DomainName;
  /** Blocks that are not public and may be published all the same. */
  readonly allowed: readonly string[];
}

/** Who reads it, and relative to what. */
export interface FollowerShowing {
  readonly apex: DomainName;
  readonly headers: Parameters<typeof tellSentence>[1];
}

export function showAlias(follower: ListedFollower, showing: FollowerShowing): z.input<typeof aliasReply> {
  const { id, definition, addresses, answeredAt } = follower as Extract<ListedFollower, { kind: "alias" }>;
  const answered = answeredAt?.toISOString() ?? null;
  return { alias_id: id, ...showListed(follower, showing), target: definition.target, ttl: addresses.ttl, answered };
}

export function showPool(follower: ListedFollower, showing: FollowerShowing): z.input<typeof poolReply> {
  const { id, definition } = follower as Extract<ListedFollower, { kind: "pool" }>;
  return { pool_id: id, ...showListed(follower, showing), ...definition };
}

function showListed({ owner, addresses, problem }: ListedFollower, { apex, headers }: FollowerShowing) {
  const { ipv4, ipv6 } = addresses;
  const told = problem && tellSentence(problem, headers);
  return { name: formatRelative(owner, apex), a: [...ipv4], aaaa: [...ipv6], problem: told };
}

function readAliasFields(
  { name, target }: z.output<typeof aliasFields>,
  { apex }: FollowerReading,
): Result<Follower, Refusal> {
  const owner = readOwner(name, apex);
  if (!owner.ok) return owner;
  const definition = readAlias(target, owner.value, apex);
  return definition.ok ? ok({ owner: owner.value, kind: "alias", definition: definition.value }) : definition;
}

function readPoolFields(
  { name, ...given }: z.output<typeof poolFields>,
  reading: FollowerReading,
): Result<Follower, Refusal> {
  const owner = readOwner(name, reading.apex);
  return owner.ok ? poolOf(owner.value, given, reading) : owner;
}

function poolOf(
  owner: DomainName,
  given: PoolDefinition,
  { apex, allowed }: FollowerReading,
): Result<Follower, Refusal> {
  const definition = readPool(given, owner, apex);
  if (!definition.ok) return definition;
  for (const [index, { value }] of definition.value.members.entries()) {
    if (parseAddress(value) === undefined || isPublishable(value, allowed)) continue;
    return refuse(invalidField(`members[${index}].value`, "address-not-allowed"));
  }
  return ok({ owner, kind: "pool", definition: definition.value });
}

function readOwner(text: string, apex: DomainName): Result<DomainName, Refusal> {
  const owner = parseDomainName(text, apex);
  if (!owner.ok) return refuse(invalidField("name", owner.error));
  const lawful = checkOwner(owner.value, apex);
  return lawful.ok ? owner : refuse(invalidField("name", lawful.error));
}

/** The edits that the fields of a batch describe. */
export function readFollowerBatch(
  alias: z.output<typeof aliasBatch> | undefined,
  pool: z.output<typeof poolBatch> | undefined,
  reading: FollowerReading,
): Result<FollowerEdits | undefined, Refusal> {
  if (!alias && !pool) return ok(undefined);
  const creations: Follower[] = [];
  const given = [
    ...(alias?.create ?? []).map((fields) => () => readAliasFields(fields, reading)),
    ...(pool?.create ?? []).map((fields) => () => readPoolFields(fields, reading)),
  ];
  for (const read of given) {
    const follower = read();
    if (!follower.ok) return follower;
    creations.push(follower.value);
  }
  const modifications = [
    ...(alias?.modify ?? []).map(({ alias_id, target }) => changeOfAlias(alias_id, target, reading)),
    ...(pool?.modify ?? []).map(({ pool_id, ...changes }) => changeOfPool(pool_id, changes, reading)),
  ];
  const gone = (kind: FollowerKind) => (id: number) => ({ kind, id });
  const deletions = [...(alias?.delete ?? []).map(gone("alias")), ...(pool?.delete ?? []).map(gone("pool"))];
  return ok({ creations, modifications, deletions });
}

type Modification = FollowerEdits["modifications"][number];

function changeOfAlias(id: number, target: string, { apex }: FollowerReading): Modification {
  const change = ({ owner }: StoredFollower): Result<Follower, Refusal> => {
    const definition = readAlias(target, owner, apex);
    return definition.ok ? ok({ owner, kind: "alias", definition: definition.value }) : definition;
  };
  return { kind: "alias", id, change };
}

/** @param changes fields of the definition that are to be others */
function changeOfPool(id: number, changes: z.output<typeof poolChanges>, reading: FollowerReading): Modification {
  const change = ({ owner, definition }: StoredFollower) => {
    const given = Object.entries(changes).filter(([, value]) => value !== undefined);
    return poolOf(owner, { ...(definition as PoolDefinition), ...Object.fromEntries(given) }, reading);
  };
  return { kind: "pool", id, change };
}
