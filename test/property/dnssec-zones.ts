import { createHash } from "node:crypto";
import { fc } from "../support/property.ts";

/** A name below the apex as its labels, the leftmost first; the apex has none. */
export type Labels = readonly string[];

/** What stands at a name: types, as a master file writes them. */
export type Content = readonly ("A" | "TXT" | "CNAME" | "NS" | "DS")[];

/** A zone as the tests think of it: what its owner wrote, without the records of DNSSEC. */
export interface ModelZone {
  readonly names: ReadonlyMap<string, Content>;
  readonly denial: ModelDenial;
}

export type ModelDenial = "nsec" | "nsec3" | "opt-out";

export const APEX = "example.org.";
/** RFC 9276 wants neither; zones have them, and they must be reckoned with. */
const ITERATIONS = 2;
const SALT = "beef";

/** A few labels, so that names meet, nest and stand below wildcards and cuts. */
const label = fc.constantFrom("a", "b", "c", "*", "zz");
export const labels: fc.Arbitrary<Labels> = fc.array(label, { minLength: 1, maxLength: 4 });

const CONTENTS: readonly Content[] = [["A"], ["A", "TXT"], ["TXT"], ["CNAME"], ["NS"], ["NS", "DS"]];

/** Content for a name; a wildcard owns no cut, as nobody knows what that would mean (RFC 4592 §4.2). */
const placed = fc
  .tuple(labels, fc.constantFrom(...CONTENTS))
  .filter(([name, content]) => !(name[0] === "*" && content.includes("NS")));

export const modelZones: fc.Arbitrary<ModelZone> = fc.record({
  names: fc.array(placed, { maxLength: 12 }).map((entries) => new Map(entries.map(([name, c]) => [textOf(name), c]))),
  denial: fc.constantFrom<ModelDenial>("nsec", "nsec3", "opt-out"),
});

export function textOf(name: Labels): string {
  return name.length === 0 ? APEX : `${name.join(".")}.${APEX}`;
}

export function labelsOf(text: string): Labels {
  return text === APEX ? [] : text.slice(0, -APEX.length - 1).split(".");
}

export function parentOf(name: string): string {
  return textOf(labelsOf(name).slice(1));
}

export function isBelow(name: string, ancestor: string): boolean {
  return name !== ancestor && (ancestor === APEX || name.endsWith(`.${ancestor}`));
}

/** RFC 4034 §6.1: label by label from the right; a name comes before what is below it. */
export function isBefore(a: string, b: string): boolean {
  const [left, right] = [labelsOf(a).toReversed(), labelsOf(b).toReversed()];
  for (const [index, text] of left.entries()) {
    const other = right[index];
    if (other === undefined) return false;
    if (text !== other) return Buffer.compare(Buffer.from(text), Buffer.from(other)) < 0;
  }
  return left.length < right.length;
}

/** RFC 5155 §5, by the platform's SHA-1; in base 32 with the extended hex alphabet. */
export function hashOf(name: string): string {
  const wire = name
    .split(".")
    .filter((text) => text !== "")
    .flatMap((text) => [text.length, ...Buffer.from(text)]);
  let digest: Uint8Array = Uint8Array.from([...wire, 0]);
  for (let left = ITERATIONS; left >= 0; left -= 1) {
    digest = createHash("sha1").update(digest).update(Buffer.from(SALT, "hex")).digest();
  }
  return BigInt(`0x${Buffer.from(digest).toString("hex")}`)
    .toString(32)
    .padStart(32, "0");
}

/** Whether the name, or a name below it, has records. */
export function exists({ names }: ModelZone, name: string): boolean {
  return name === APEX || [...names.keys()].some((other) => other === name || isBelow(other, name));
}

/** The highest cut at or above a name. */
export function cutOver({ names }: ModelZone, name: string): string | undefined {
  for (let depth = 1; depth <= labelsOf(name).length; depth += 1) {
    const ancestor = textOf(labelsOf(name).slice(-depth));
    if (names.get(ancestor)?.includes("NS")) return ancestor;
  }
  return undefined;
}

/** The zone as a master file, with a chain and with signatures that nobody could check: what they cover is right. */
export function masterFile(zone: ModelZone): string {
  const lines = [`$TTL 60`, ...signed(APEX, "SOA", [`ns h 1 2 3 4 5`]), ...signed(APEX, "NS", ["ns.example.net."])];
  lines.push(...signed(APEX, "DNSKEY", ["257 3 13 AAAA"]));
  for (const [name, content] of zone.names) {
    const cut = cutOver(zone, name);
    for (const type of content) {
      const isAuthoritative = cut === undefined || (cut === name && type === "DS");
      lines.push(...(isAuthoritative ? signed(name, type, [DATA[type]]) : [`${name} ${type} ${DATA[type]}`]));
    }
  }
  const names = [...zone.names.keys()].filter((name) => (cutOver(zone, name) ?? name) === name);
  return `${[...lines, ...(zone.denial === "nsec" ? nsecChain(zone, names) : nsec3Chain(zone, names))].join("\n")}\n`;
}

const DATA = {
  A: "192.0.2.1",
  TXT: '"text"',
  CNAME: "www.example.net.",
  NS: "ns.example.net.",
  DS: `1 13 2 ${"ab".repeat(32)}`,
} as const;

function signed(name: string, type: string, data: readonly string[]): string[] {
  const labelCount = name.split(".").filter((text) => text !== "" && text !== "*").length;
  const signature = `${type} 13 ${labelCount} 60 20300101000000 20200101000000 1 ${APEX} AAAA`;
  return [...data.map((text) => `${name} ${type} ${text}`), `${name} RRSIG ${signature}`];
}

function nsecChain({ names }: ModelZone, owners: readonly string[]): string[] {
  const chain = [APEX, ...owners].toSorted((a, b) => (isBefore(a, b) ? -1 : 1));
  return chain.flatMap((owner, index) => {
    const types = owner === APEX ? ["NS", "SOA", "DNSKEY"] : names.get(owner)!;
    return signed(owner, "NSEC", [`${chain[(index + 1) % chain.length]} ${types.join(" ")} RRSIG NSEC`]);
  });
}

function nsec3Chain({ names, denial }: ModelZone, owners: readonly string[]): string[] {
  const isLeftOut = (name: string) => denial === "opt-out" && names.get(name)!.join() === "NS";
  const types = new Map<string, readonly string[]>([[APEX, ["NS", "SOA", "DNSKEY", "NSEC3PARAM", "RRSIG"]]]);
  for (const owner of owners.filter((name) => !isLeftOut(name))) {
    const content = names.get(owner)!;
    types.set(owner, content.join() === "NS" ? content : [...content, "RRSIG"]);
    for (let name = parentOf(owner); !types.has(name); name = parentOf(name)) types.set(name, []);
  }
  const chain = [...types]
    .map(([name, list]) => ({ hash: hashOf(name), list }))
    .toSorted((a, b) => (a.hash < b.hash ? -1 : 1));
  const flags = denial === "opt-out" ? 1 : 0;
  return [
    ...signed(APEX, "NSEC3PARAM", [`1 0 ${ITERATIONS} ${SALT}`]),
    ...chain.flatMap(({ hash, list }, index) => {
      const next = chain[(index + 1) % chain.length]!.hash;
      return signed(`${hash}.${APEX}`, "NSEC3", [`1 ${flags} ${ITERATIONS} ${SALT} ${next} ${list.join(" ")}`]);
    }),
  ];
}
