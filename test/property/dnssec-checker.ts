import type { Sections } from "../support/dnssec-questions.ts";
import { APEX, exists, hashOf, isBefore, isBelow, labelsOf, type ModelZone, parentOf, textOf } from "./dnssec-zones.ts";

/** What a zone should answer; the checker finds out by itself. */
export type Expected =
  | { readonly kind: "answer"; readonly type: string; readonly wildcardOf?: string }
  | { readonly kind: "no-data" }
  | { readonly kind: "name-error" }
  | { readonly kind: "referral"; readonly cut: string };

/** RFC 1034 §4.3.2 and RFC 4592 over the model. */
export function expectedAnswer(zone: ModelZone, qname: string, qtype: string): Expected {
  const depth = labelsOf(qname).length;
  for (let count = 1; count <= depth; count += 1) {
    const name = textOf(labelsOf(qname).slice(-count));
    if (!exists(zone, name)) {
      const encloser = parentOf(name);
      const wildcard = encloser === APEX ? `*.${APEX}` : `*.${encloser}`;
      if (!exists(zone, wildcard)) return { kind: "name-error" };
      const type = answeringType(zone, wildcard, qtype);
      return type === undefined ? { kind: "no-data" } : { kind: "answer", type, wildcardOf: encloser };
    }
    const isCut = zone.names.get(name)?.includes("NS");
    if (isCut && !(count === depth && qtype === "DS")) return { kind: "referral", cut: name };
  }
  const type = answeringType(zone, qname, qtype);
  return type === undefined ? { kind: "no-data" } : { kind: "answer", type };
}

function answeringType({ names }: ModelZone, name: string, qtype: string): string | undefined {
  const content: readonly string[] = names.get(name) ?? [];
  return [qtype, "CNAME"].find((type) => content.includes(type));
}

/** Why a validator would not believe a response; undefined when it would. */
export function doubtAbout(zone: ModelZone, qname: string, qtype: string, response: Sections): string | undefined {
  const expected = expectedAnswer(zone, qname, qtype);
  const unsigned = unsignedIn([...response.answers, ...response.authorities], expected);
  if (unsigned) return `no signature with ${unsigned}`;
  const proof = zone.denial === "nsec" ? new NsecProof(response.authorities) : new Nsec3Proof(response.authorities);
  if (response.rcode !== (expected.kind === "name-error" ? 3 : 0)) return `rcode ${response.rcode}`;
  if (expected.kind === "name-error") return proof.deniesName(qname) ? undefined : "the name's absence is not proved";
  if (expected.kind === "no-data")
    return proof.deniesType(qname, qtype) ? undefined : "no proof that the type is not there";
  if (expected.kind === "referral") {
    const isSecure = zone.names.get(expected.cut)!.includes("DS");
    if (isSecure) return hasRecord(response.authorities, expected.cut, "DS") ? undefined : "no DS";
    return proof.deniesDs(expected.cut) ? undefined : "no proof that there is no DS";
  }
  if (!hasRecord(response.answers, qname, expected.type)) return `no ${expected.type}`;
  if (expected.wildcardOf === undefined) return undefined;
  return proof.deniesNextCloser(qname, expected.wildcardOf) ? undefined : "no proof that no closer match exists";
}

/** Records of the chain in a response: leave one out, and nothing should be proved any more. */
export function proofRecords(response: Sections): readonly string[] {
  return response.authorities.filter((text) => /^\S+ \d+ NSEC3? /.test(text));
}

function hasRecord(records: readonly string[], name: string, type: string): boolean {
  return records.some((text) => text.startsWith(`${name} `) && text.split(" ")[2] === type);
}

/** RFC 4035 §3.1.1: all but what is on the child's side of a cut. */
function unsignedIn(records: readonly string[], expected: Expected): string | undefined {
  const sets = records.map((text) => text.split(" ") as [string, string, string, string]);
  const signatures = new Set(
    sets.filter(([, , type]) => type === "RRSIG").map(([owner, , , covered]) => owner + covered),
  );
  const isCutNs = (owner: string, type: string) =>
    expected.kind === "referral" && type === "NS" && owner === expected.cut;
  const found = sets.find(
    ([owner, , type]) => type !== "RRSIG" && !isCutNs(owner, type) && !signatures.has(owner + type),
  );
  return found?.slice(0, 3).join(" ");
}

interface Proof {
  deniesName(qname: string): boolean;
  deniesType(qname: string, qtype: string): boolean;
  deniesDs(cut: string): boolean;
  deniesNextCloser(qname: string, encloser: string): boolean;
}

/** RFC 4035 §5.4, RFC 6840 §4. */
class NsecProof implements Proof {
  readonly #spans: readonly { readonly owner: string; readonly next: string; readonly types: readonly string[] }[];

  constructor(authorities: readonly string[]) {
    const fields = authorities.map((text) => text.split(" ")).filter(([, , type]) => type === "NSEC");
    this.#spans = fields.map(([owner, , , next, ...types]) => ({ owner: owner!, next: next!, types }));
  }

  deniesName(qname: string): boolean {
    const encloser = this.#encloserOf(qname);
    return encloser !== undefined && this.#spanOver(wildcardBelow(encloser)) !== undefined;
  }

  deniesType(qname: string, qtype: string): boolean {
    if (this.#lacksType(qname, qtype)) return true;
    const encloser = this.#encloserOf(qname);
    return encloser !== undefined && this.#lacksType(wildcardBelow(encloser), qtype);
  }

  deniesDs(cut: string): boolean {
    const types = this.#spans.find(({ owner }) => owner === cut)?.types ?? [];
    return types.includes("NS") && !types.includes("DS") && !types.includes("SOA");
  }

  deniesNextCloser(qname: string, encloser: string): boolean {
    return this.#encloserOf(qname) === encloser;
  }

  /** The name has an NSEC without the type, or is an empty non-terminal. */
  #lacksType(name: string, type: string): boolean {
    const own = this.#spans.find(({ owner }) => owner === name);
    if (own) return !own.types.includes(type) && !own.types.includes("CNAME");
    return this.#spanOver(name, true) !== undefined;
  }

  #encloserOf(qname: string): string | undefined {
    const span = this.#spanOver(qname);
    if (!span) return undefined;
    for (let name = parentOf(qname); ; name = parentOf(name)) {
      if ([span.owner, span.next].some((end) => end === name || isBelow(end, name))) return name;
    }
  }

  /** The NSEC over a name that does not exist, or, if wanted so, over an empty non-terminal. */
  #spanOver(name: string, isEmpty = false) {
    return this.#spans.find(
      ({ owner, next, types }) =>
        isBefore(owner, name) &&
        (next === APEX || isBefore(name, next)) &&
        isBelow(next, name) === isEmpty &&
        !(isBelow(name, owner) && types.includes("NS") && !types.includes("SOA")),
    );
  }
}

/** RFC 5155 §8. */
class Nsec3Proof implements Proof {
  readonly #spans: readonly {
    readonly hash: string;
    readonly next: string;
    readonly optsOut: boolean;
    readonly types: readonly string[];
  }[];

  constructor(authorities: readonly string[]) {
    const fields = authorities.map((text) => text.split(" ")).filter(([, , type]) => type === "NSEC3");
    this.#spans = fields.map(([owner, , , , flags, , , next, ...types]) => ({
      hash: owner!.split(".")[0]!,
      next: next!.toLowerCase(),
      optsOut: flags === "1",
      types,
    }));
  }

  deniesName(qname: string): boolean {
    const encloser = this.#encloserOf(qname);
    if (encloser === undefined) return false;
    const wildcard = wildcardBelow(encloser.name);
    // The name may be below an empty non-terminal that opt-out leaves out: a wildcard further up is then no match.
    return this.#spanOver(wildcard) !== undefined || (encloser.optsOut && this.#spanOf(wildcard) !== undefined);
  }

  deniesType(qname: string, qtype: string): boolean {
    if (this.#lacksType(qname, qtype)) return true;
    const encloser = this.#encloserOf(qname);
    return encloser !== undefined && (encloser.optsOut || this.#lacksType(wildcardBelow(encloser.name), qtype));
  }

  deniesDs(cut: string): boolean {
    const own = this.#spanOf(cut);
    if (own) return own.types.includes("NS") && !own.types.includes("DS") && !own.types.includes("SOA");
    return this.#encloserOf(cut)?.optsOut ?? false;
  }

  deniesNextCloser(qname: string, encloser: string): boolean {
    const depth = labelsOf(encloser).length + 1;
    return this.#spanOver(textOf(labelsOf(qname).slice(-depth))) !== undefined;
  }

  #lacksType(name: string, type: string): boolean {
    const own = this.#spanOf(name);
    return own !== undefined && !own.types.includes(type) && !own.types.includes("CNAME");
  }

  #encloserOf(qname: string): { readonly name: string; readonly optsOut: boolean } | undefined {
    for (let longer = qname; longer !== APEX; longer = parentOf(longer)) {
      const over = this.#spanOver(longer);
      if (over && this.#spanOf(parentOf(longer))) return { name: parentOf(longer), optsOut: over.optsOut };
    }
    return undefined;
  }

  #spanOf(name: string) {
    return this.#spans.find(({ hash }) => hash === hashOf(name));
  }

  #spanOver(name: string) {
    const hashed = hashOf(name);
    return this.#spans.find(({ hash, next }) =>
      hash < next ? hash < hashed && hashed < next : hashed > hash || hashed < next,
    );
  }
}

function wildcardBelow(name: string): string {
  return `*.${name}`;
}
