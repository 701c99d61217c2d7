import type { z } from "zod";
import { sentenceOf } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";
import { type DomainName, formatDomainName, parseDomainName, portableName } from "../name.ts";
import { aliasDefinition, checkOwner, type Follower, poolDefinition, readAlias, readPool } from "./follower.ts";

/** How a line begins that says what a name follows: a comment to everybody else (RFC 1035 §5.1). */
const COMMENT = /^;palomar (alias|pool) (\S+) (.+?)\r?$/gm;

/** Ends of lines to some programs, which JSON may have as they are (RFC 8259 §7). */
const LINE_SEPARATORS = /[\u0085\u2028\u2029]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A follower of a master file, and where it stands. */
export interface PlacedFollower {
  readonly follower: Follower;
  readonly line: number;
}

/** Followers as the comments of a master file, a line each. */
export function formatFollowers(followers: readonly Follower[]): string {
  return followers
    .map(({ owner, kind, definition }) => {
      const name = portableName(formatDomainName(owner));
      return `;palomar ${kind} ${name} ${JSON.stringify(definition).replace(LINE_SEPARATORS, escaped)}\n`;
    })
    .join("");
}

/**
 * The followers that the comments of a master file tell of.
 * @param most that a zone may have; behind one more the rest is not read
 */
export function readFollowers(
  text: string,
  apex: DomainName,
  most = Number.POSITIVE_INFINITY,
): Result<readonly PlacedFollower[], { readonly line: number; readonly reason: Sentence }> {
  const followers: PlacedFollower[] = [];
  const owners = new Set<string>();
  let line = 1;
  let countedTo = 0;
  for (const match of text.matchAll(COMMENT)) {
    if (followers.length > most) break;
    const [, kind, name, definition] = match as unknown as [string, Follower["kind"], string, string];
    line += countLineEnds(text, countedTo, match.index);
    countedTo = match.index;
    const follower = readFollower({ kind, name, definition }, apex);
    if (!follower.ok) return refuse({ line, reason: follower.error });
    const { owner } = follower.value;
    if (owners.has(owner.key)) return refuse({ line, reason: sentence("follower-exists", { name }) });
    owners.add(owner.key);
    followers.push({ follower: follower.value, line });
  }
  return ok(followers);
}

function countLineEnds(text: string, start: number, end: number): number {
  let count = 0;
  for (let at = text.indexOf("\n", start); at >= 0 && at < end; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

function readFollower(
  { kind, name, definition }: { readonly kind: Follower["kind"]; readonly name: string; readonly definition: string },
  apex: DomainName,
): Result<Follower, Sentence> {
  const owner = parseDomainName(name, apex);
  if (!owner.ok) return owner;
  const lawful = checkOwner(owner.value, apex);
  if (!lawful.ok) return lawful;
  if (kind === "alias") {
    const given = parse(aliasDefinition, definition);
    if (!given.ok) return given;
    const alias = readAlias(given.value.target, owner.value, apex);
    return alias.ok ? ok({ owner: owner.value, kind, definition: alias.value }) : refuse(sentenceOf(alias.error));
  }
  const given = parse(poolDefinition, definition);
  if (!given.ok) return given;
  const pool = readPool(given.value, owner.value, apex);
  return pool.ok ? ok({ owner: owner.value, kind, definition: pool.value }) : refuse(sentenceOf(pool.error));
}

function parse<Schema extends z.ZodType>(schema: Schema, text: string): Result<z.output<Schema>, Sentence> {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return refuse(sentence("follower-comment", { reason: sentence("malformed-json") }));
  }
  const parsed = schema.safeParse(given);
  if (parsed.success) return ok(parsed.data);
  const field = parsed.error.issues[0]!.path.join(".");
  const reason = sentence("invalid-field", { field, reason: sentence("not-acceptable") });
  return refuse(sentence("follower-comment", { reason }));
}
