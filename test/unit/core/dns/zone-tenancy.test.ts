import { describe, expect, it } from "vitest";
import { type AuditedZone, ZoneAudit } from "../../../../services/core/dns/zone-audit.ts";
import {
  type AskedZone,
  areInOneHand,
  judgeName,
  judgeSuffix,
  type NameSurroundings,
  type RelatedZone,
  type ZoneMaker,
} from "../../../../services/core/dns/zone-tenancy.ts";
import { saying } from "../../../support/said.ts";
import { nameOf } from "./support.ts";

/** Companies 1 and 2 are those of reseller `one`, 3 that of reseller `two`. */
const RESELLERS = ["one", "one", "two"] as const;

const NOTHING: NameSurroundings = { above: [], below: [], isCut: false, isAllowed: false, wasFirst: false };

const asked = (maker: ZoneMaker, companyId: number | null = 1): AskedZone => ({
  ...{ domain: "Asked.Example.org", name: "asked.example.org", maker },
  ...{ resellerId: companyId === null ? null : RESELLERS[companyId - 1]!, companyId },
});

const zoneOf = (domain: string, companyId: number): RelatedZone => ({
  ...{ domain, companyId, resellerId: RESELLERS[companyId - 1]!, crmId: `c${companyId}` },
});
const catalog = (resellerId: string): RelatedZone => ({
  ...{ domain: "catalog.example.org", companyId: null, resellerId, crmId: null },
});
const feed: RelatedZone = { domain: "rpz.example.org", companyId: null, resellerId: null, crmId: null };
const above = (...zones: RelatedZone[]) => ({ above: zones });
const below = (...zones: RelatedZone[]) => ({ below: zones });
const REFUSED = "refused";

describe("a name among those that are there", () => {
  it.each<[string, ZoneMaker, Partial<NameSurroundings>, string[] | typeof REFUSED]>([
    ["alone", "company", {}, []],
    ["below its own", "company", above(zoneOf("example.org", 1)), []],
    ["above its own", "company", below(zoneOf("x.asked.example.org", 1)), []],
    ["below a neighbour's", "company", above(zoneOf("example.org", 2)), REFUSED],
    ["above a neighbour's", "company", below(zoneOf("x.asked.example.org", 2)), REFUSED],
    ["below another reseller's", "company", above(zoneOf("example.org", 3)), REFUSED],
    ["above another reseller's", "company", below(zoneOf("x.asked.example.org", 3)), REFUSED],
    ["below its own, below a neighbour's", "company", above(zoneOf("example.org", 1), zoneOf("org", 2)), REFUSED],
    [
      "below another's, allowed to the reseller",
      "company",
      { ...above(zoneOf("example.org", 3)), isAllowed: true },
      REFUSED,
    ],
    ["below another's, first", "company", { ...above(zoneOf("example.org", 3)), wasFirst: true }, REFUSED],
    ["below a catalog", "company", above(catalog("one")), REFUSED],
    ["below a feed", "company", above(feed), REFUSED],
    ["above a catalog and a feed", "company", below(catalog("one"), feed), []],

    ["alone", "reseller", {}, []],
    ["below the company's own", "reseller", above(zoneOf("example.org", 1)), []],
    [
      "below a neighbour's",
      "reseller",
      above(zoneOf("example.org", 2)),
      ["asked.example.org lies below example.org of company c2 and answers in its place"],
    ],
    [
      "above two neighbours'",
      "reseller",
      below(zoneOf("x.asked.example.org", 2), zoneOf("y.asked.example.org", 3)),
      [
        "asked.example.org lies above x.asked.example.org of company c2, which answers for its own names",
        "asked.example.org lies above a zone of another reseller, which answers for its own names",
      ],
    ],
    ["below another reseller's", "reseller", above(zoneOf("example.org", 3)), REFUSED],
    ["below a feed", "reseller", above(feed), REFUSED],
    ["below another's catalog", "reseller", above(catalog("two")), REFUSED],
    ["below its catalog", "reseller", above(catalog("one")), []],
    [
      "below another reseller's, allowed",
      "reseller",
      { ...above(zoneOf("example.org", 3)), isAllowed: true },
      ["asked.example.org lies below a zone of another reseller and answers in its place"],
    ],
    [
      "below another reseller's, first",
      "reseller",
      { ...above(zoneOf("example.org", 3)), wasFirst: true },
      ["asked.example.org lies below a zone of another reseller and answers in its place"],
    ],
    [
      "below its own, below another reseller's",
      "reseller",
      above(zoneOf("example.org", 1), zoneOf("org", 3)),
      ["asked.example.org lies below a zone of another reseller and answers in its place"],
    ],
    [
      "with more below than are told",
      "reseller",
      { ...below(zoneOf("x.asked.example.org", 3)), isCut: true },
      [
        "asked.example.org lies above a zone of another reseller, which answers for its own names",
        "further warnings are left out",
      ],
    ],

    ["below another reseller's", "operator", above(zoneOf("example.org", 3)), REFUSED],
    [
      "above another reseller's",
      "operator",
      below(zoneOf("x.asked.example.org", 3)),
      [
        "asked.example.org lies above x.asked.example.org of company c3 of reseller two, which answers for its own names",
      ],
    ],
  ])("%s, asked by %s", (_, maker, around, outcome) => {
    const judged = judgeName(asked(maker), { ...NOTHING, ...around });
    if (outcome !== REFUSED) return expect(judged).toEqual({ ok: true, value: (outcome as string[]).map(saying) });
    // Whatever stands in the way, and whoever asks, it is the same sentence.
    expect(judged).toMatchObject({
      error: {
        code: "zone-exists",
        values: { domain: "Asked.Example.org" },
      },
    });
  });

  it("lets a feed of the operator be anywhere, with warnings", () => {
    const around = { ...NOTHING, ...above(zoneOf("example.org", 3)), ...below(zoneOf("x.asked.example.org", 1)) };
    expect(judgeName(asked("operator", null), around)).toEqual({
      ok: true,
      value: [
        "asked.example.org lies below example.org of company c3 of reseller two and answers in its place",
        "asked.example.org lies above x.asked.example.org of company c1 of reseller one, which answers for its own names",
      ].map(saying),
    });
  });
});

describe("a public suffix", () => {
  it.each<[ZoneMaker, number | null, boolean, boolean]>([
    ["company", 1, false, false],
    ["company", 1, true, true],
    ["reseller", 1, false, false],
    ["reseller", 1, true, true],
    ["operator", 1, false, false],
    ["operator", 1, true, true],
    // A feed or a catalog.
    ["operator", null, false, true],
    ["reseller", null, false, false],
  ])("made by %s for company %s, allowed %s: %s", (maker, companyId, isAllowed, expected) => {
    const judged = judgeSuffix({ ...asked(maker), companyId }, isAllowed);
    expect(judged.ok).toBe(expected);
    if (!judged.ok) expect(judged.error).toMatchObject({ code: "public-suffix" });
  });
});

describe("two zones", () => {
  it.each<[string, ZoneMaker | null, [number | null, number | null], boolean]>([
    ["of one company", null, [1, 1], true],
    ["of one company, made by its key", "company", [1, 1], true],
    ["the later one the reseller's wish", "reseller", [1, 2], true],
    ["the later one the operator's wish", "operator", [1, 2], true],
    ["the later one of a company's making", "company", [1, 2], false],
    ["the later one of unknown making", null, [1, 2], false],
    ["of two resellers", "operator", [1, 3], false],
    ["a feed among them", "operator", [1, null], false],
    ["two feeds", "operator", [null, null], false],
  ])("%s: %s %j in one hand: %s", (_, madeBy, [first, second], expected) => {
    const place = (id: number, companyId: number | null, maker: ZoneMaker | null) => ({
      ...{ id, companyId, resellerId: companyId === null ? null : RESELLERS[companyId - 1]!, madeBy: maker },
    });
    const [earlier, later] = [place(1, first, "reseller"), place(2, second, madeBy)];
    expect(areInOneHand(earlier, later)).toBe(expected);
    expect(areInOneHand(later, earlier)).toBe(expected);
  });
});

describe("an audit", () => {
  type Given = [domain: string, companyId: number, madeBy: ZoneMaker | null, more?: Partial<AuditedZone>];

  /** Zones in canonical order; ids in that order unless told. */
  function audit(...given: Given[]): string[] {
    const pass = new ZoneAudit<AuditedZone & { domain: string }>();
    return given
      .flatMap(([domain, companyId, madeBy, more], index) => [
        ...pass.look({
          ...{ id: index + 1, domain, apex: nameOf(domain), companyId, resellerId: RESELLERS[companyId - 1]!, madeBy },
          ...{ isAllowed: false, predecessors: new Set(), ...more },
        }),
      ])
      .map((found) =>
        found.kind === "pair"
          ? `${found.below.domain} below ${found.above.domain}: ${found.verdict}`
          : `${found.zone.domain}: suffix`,
      );
  }

  it.each<[string, Given[], string[]]>([
    [
      "nothing",
      [
        ["a.test", 1, null],
        ["x.a.test", 1, null],
        ["b.test", 2, null],
      ],
      [],
    ],
    [
      "no relation by letters alone",
      [
        ["a.test", 1, null],
        ["xa.test", 2, null],
      ],
      [],
    ],
    [
      "made by a company",
      [
        ["a.test", 1, null],
        ["x.a.test", 2, "company"],
      ],
      ["x.a.test below a.test: refused"],
    ],
    [
      "unknown",
      [
        ["a.test", 1, "reseller"],
        ["x.a.test", 2, null],
      ],
      ["x.a.test below a.test: refused"],
    ],
    [
      "the reseller's wish",
      [
        ["a.test", 1, "company"],
        ["x.a.test", 2, "reseller"],
      ],
      ["x.a.test below a.test: warned"],
    ],
    [
      "the upper one came later",
      [
        ["a.test", 1, "company", { id: 9 }],
        ["x.a.test", 2, "reseller"],
      ],
      ["x.a.test below a.test: refused"],
    ],
    [
      "below another reseller's",
      [
        ["a.test", 1, "company"],
        ["x.a.test", 3, "reseller"],
      ],
      ["x.a.test below a.test: refused"],
    ],
    [
      "above another reseller's",
      [
        ["a.test", 1, "reseller", { id: 9 }],
        ["x.a.test", 3, "company"],
      ],
      ["x.a.test below a.test: warned"],
    ],
    [
      "what somebody had first, what lies below that, and what does not",
      [
        ["a.test", 1, "reseller", { id: 2, predecessors: new Set(["two x.a.test.", "one y.a.test."]) }],
        ["_dmarc.a.test", 3, "reseller", { id: 3 }],
        ["x.a.test", 3, "reseller", { id: 4 }],
        ["xx.a.test", 3, "reseller", { id: 5 }],
        ["y.a.test", 3, "reseller", { id: 6 }],
        ["deep.Z.a.test", 3, "reseller", { id: 7 }],
      ],
      [
        ...["_dmarc.a.test below a.test: refused", "x.a.test below a.test: warned"],
        ...["xx.a.test below a.test: refused", "y.a.test below a.test: refused", "deep.Z.a.test below a.test: refused"],
      ],
    ],
    [
      "a name below one that somebody had first, in any case",
      [
        ["A.test", 1, "reseller", { id: 2, predecessors: new Set(["two x.a.test."]) }],
        ["_dmarc.X.a.test", 3, "reseller", { id: 3 }],
      ],
      ["_dmarc.X.a.test below A.test: warned"],
    ],
    [
      "allowed by the operator",
      [
        ["a.test", 1, "company"],
        ["x.a.test", 3, "reseller", { isAllowed: true }],
      ],
      [],
    ],
    [
      "every pair, back out of the tree and into the next",
      [
        ["a.test", 1, null],
        ["x.a.test", 2, null],
        ["y.x.a.test", 3, null],
        ["z.a.test", 2, null],
        ["b.test", 2, null],
      ],
      [
        "x.a.test below a.test: refused",
        ...["y.x.a.test below a.test: refused", "y.x.a.test below x.a.test: refused", "z.a.test below a.test: refused"],
      ],
    ],
    [
      "suffixes",
      [
        ["corp", 1, null],
        ["co.uk", 1, null],
        ["test", 1, null, { isAllowed: true }],
      ],
      ["corp: suffix", "co.uk: suffix"],
    ],
  ])("%s", (_, zones, found) => {
    expect(audit(...zones)).toEqual(found);
  });
});
