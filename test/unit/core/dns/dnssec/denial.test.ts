import { describe, expect, it } from "vitest";
import { denialScheme, relinkChain } from "../../../../../services/core/dns/dnssec/denial.ts";
import { formatDomainName } from "../../../../../services/core/dns/name.ts";
import { formatRdata } from "../../../../../services/core/dns/rdata/rdata.ts";
import { TYPE } from "../../../../../services/core/dns/rr-types.ts";
import { nameOf } from "../support.ts";

const chain = (text: string) => new Map(text.split(" ").map((link) => link.split(">") as [string, string]));
const relinked = (known: string, joining: string, leaving: string) =>
  [...relinkChain(known === "" ? new Map() : chain(known), joining, new Set(leaving))]
    .map(([position, next]) => `${position}>${next}`)
    .sort()
    .join(" ");

describe("a chain of denial", () => {
  it.each([
    {
      known: "",
      joining: "cab",
      leaving: "",
      expected: "a>b b>c c>a",
      what: "is made in order, the last to the first",
    },
    { known: "", joining: "a", leaving: "", expected: "a>a", what: "of one points to itself" },
    { known: "a>a", joining: "b", leaving: "", expected: "a>b b>a", what: "takes a second" },
    { known: "b>b", joining: "a", leaving: "", expected: "a>b b>a", what: "takes a second before the first" },
    { known: "b>d", joining: "c", leaving: "", expected: "b>c c>d", what: "takes one between two" },
    { known: "y>a", joining: "z", leaving: "", expected: "y>z z>a", what: "takes one after the last" },
    { known: "c>a", joining: "0", leaving: "", expected: "0>a c>0", what: "takes one before the first" },
    { known: "b>c c>d", joining: "", leaving: "c", expected: "b>d", what: "closes over one that leaves" },
    { known: "b>c c>d d>e", joining: "", leaving: "cd", expected: "b>e", what: "closes over neighbours that leave" },
    { known: "c>a a>b", joining: "", leaving: "a", expected: "c>b", what: "closes over the first" },
    { known: "a>b b>d", joining: "c", leaving: "b", expected: "a>c c>d", what: "joins and closes at one place" },
    { known: "a>b b>a", joining: "", leaving: "b", expected: "a>a", what: "shrinks to one" },
  ])("$what", ({ known, joining, leaving, expected }) => {
    expect(relinked(known, joining, leaving)).toBe(expected);
  });

  it("of NSEC stands at the names, in lower case where they are pointed to", () => {
    const scheme = denialScheme("nsec", nameOf("example.org."));
    const name = nameOf("WWW\\000\\001.Example.ORG.");
    const position = scheme.positionOf(name);
    expect(formatDomainName(scheme.ownerAt(position))).toBe("www\\000\\001.example.org.");
    expect(scheme.positionOfOwner(name)).toBe(position);
    const rdata = scheme.encode(position, [TYPE.A, TYPE.RRSIG, TYPE.NSEC]);
    expect(formatRdata(TYPE.NSEC, rdata)).toBe("www\\000\\001.example.org. A RRSIG NSEC");
    expect(scheme.nextOf(rdata)).toBe(position);
    const moved = scheme.withNext(rdata, scheme.positionOf(nameOf("a.example.org.")));
    expect(formatRdata(TYPE.NSEC, moved)).toBe("a.example.org. A RRSIG NSEC");
  });

  it("of NSEC3 stands at hashes, without iterations and salt", () => {
    const scheme = denialScheme("nsec3", nameOf("example."));
    const position = scheme.positionOf(nameOf("EXAMPLE."));
    const owner = scheme.ownerAt(position);
    // SHA-1 of 07 "example" 00, base32hex.
    expect(formatDomainName(owner)).toBe("3msev9usmd4br9s97v51r2tdvmr9iqo1.example.");
    expect(scheme.positionOfOwner(owner)).toBe(position);
    const rdata = scheme.encode(position, [TYPE.NS, TYPE.SOA]);
    expect(formatRdata(TYPE.NSEC3, rdata)).toBe("1 0 0 - 3msev9usmd4br9s97v51r2tdvmr9iqo1 NS SOA");
    expect(scheme.nextOf(scheme.withNext(rdata, scheme.positionOf(nameOf("a.example."))))).toBe(
      scheme.positionOf(nameOf("a.example.")),
    );
  });
});
