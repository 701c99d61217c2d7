import { expect, test } from "vitest";
import { poolDefinition, readPool } from "../../../../../services/core/dns/follow/follower.ts";
import { formatFollowers, readFollowers } from "../../../../../services/core/dns/follow/zone-file-comments.ts";
import { parseDomainName } from "../../../../../services/core/dns/name.ts";
import { processorMs } from "../../../../support/processor-time.ts";

const nameOf = (text: string) => {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(text);
  return name.value;
};
const APEX = nameOf("example.org.");

function poolAt(owner: string, text: string) {
  const given = poolDefinition.parse({ members: [{ value: "192.0.2.1" }], check: { type: "http", text } });
  const pool = readPool(given, nameOf(owner), APEX);
  if (!pool.ok) throw new Error(owner);
  return { owner: nameOf(owner), kind: "pool" as const, definition: pool.value };
}

test.each(["a\u2028b", "a\u2029b", "a\u0085b", "a\r\nb", '"; {}', "\\u2028", "ñ"])(
  "a text of %j comes back from a master file as it was, in one line",
  (text) => {
    const follower = poolAt("www.example.org.", text);
    const written = formatFollowers([follower]);
    expect(written.split(/[\n\r\u0085\u2028\u2029]/)).toHaveLength(2);
    expect(readFollowers(written, APEX)).toMatchObject({ ok: true, value: [{ follower, line: 1 }] });
  },
);

test.each(["\\000nul", "sp\\032ace", "semi\\;colon", 'q\\"uote', "\\@", "\\$ORIGIN", "*", "\\255"])(
  "the name %s comes back from a master file as it was",
  (label) => {
    const follower = poolAt(`${label}.example.org.`, "x");
    const read = readFollowers(`$TTL 5\n${formatFollowers([follower])}`, APEX);
    expect(read).toMatchObject({ ok: true, value: [{ line: 2 }] });
    if (read.ok) expect(read.value[0]!.follower.owner.key).toBe(follower.owner.key);
  },
);

test("many comments take as long as they are, and no more are read than a zone may have", () => {
  const text = Array.from({ length: 30_000 }, (_, n) => `;palomar alias n${n} {"target":"example.net."}\n`).join("");
  const start = processorMs();
  const all = readFollowers(text, APEX);
  expect(processorMs() - start).toBeLessThan(10_000);
  expect(all.ok && all.value.at(-1)?.line).toBe(30_000);
  const few = readFollowers(text, APEX, 100);
  expect(few.ok && few.value.length).toBe(101);
});
