import { describe, expect, it } from "vitest";
import { PROBLEMS } from "../../../../services/console/problems.ts";
import {
  knownReason,
  knownSentence,
  REASONS,
  SENTENCES,
} from "../../../../services/console/web/src/known-sentences.ts";
import { en } from "../../../../services/console/web/src/texts/en/index.ts";
import { es } from "../../../../services/console/web/src/texts/es/index.ts";

interface Entry {
  readonly key: string;
  readonly text: unknown;
}

function entriesOf(texts: object, above = ""): Entry[] {
  return Object.entries(texts).flatMap(([name, text]) =>
    typeof text === "object" && text !== null
      ? entriesOf(text as object, `${above}${name}.`)
      : [{ key: above + name, text }],
  );
}

/** What a text comes to; one with gaps is filled with something that can be found again. */
function shown({ key, text }: Entry): string {
  if (typeof text === "string") return text;
  expect(typeof text, key).toBe("function");
  return String((text as (...given: string[]) => string)("7", "8", "9"));
}

const english = entriesOf(en);
const spanish = entriesOf(es);

/** What a sentence's gaps are called, each once, in the order of the alphabet. */
const gapsOf = (sentence: string) => [...new Set(sentence.match(/\{\w+\}/g))].sort();

describe("the texts of problems", () => {
  const { sentences, reasons } = en.problems;

  it("have the same gaps in both languages", () => {
    for (const [code, sentence] of Object.entries({ ...sentences, ...reasons })) {
      const inSpanish = { ...es.problems.sentences, ...es.problems.reasons }[code as keyof typeof sentences];
      expect(gapsOf(inSpanish), code).toEqual(gapsOf(sentence));
    }
  });

  it("are there for whatever the console refuses by itself, and want no more than it tells", () => {
    for (const [code, [, text]] of Object.entries(PROBLEMS)) {
      expect(Object.keys(sentences)).toContain(code);
      expect(gapsOf(text), code).toEqual(expect.arrayContaining(gapsOf(sentences[code as keyof typeof sentences])));
    }
  });

  it.each([
    ["missing field: mname", "missing-field", { field: "mname" }],
    [
      "invalid field: rr_prio: must be a whole number",
      "invalid-field",
      { field: "rr_prio", reason: "must be a whole number" },
    ],
    ["falta asunto", "missing-field", { field: "asunto" }],
    ["asunto invalido", "malformed-field", { field: "asunto" }],
    ["Company acme does not exist", "company-unknown", { company: "acme" }],
    ["example.org does not exist", "zone-unknown", { domain: "example.org" }],
    ["record 7 does not exist", "record-unknown", { record: "7" }],
    ["duplicated zone: example.org", "zone-exists", { domain: "example.org" }],
    [
      "co.uk is a public suffix or has one label: the operator has to allow it first",
      "public-suffix",
      { domain: "co.uk" },
    ],
    [
      "www.example.org lies below example.org of company acme and answers in its place",
      "below-zone-of-company",
      { domain: "www.example.org", above: "example.org", company: "acme" },
    ],
    [
      "example.org lies above www.example.org of company acme of reseller one, which answers for its own names",
      "above-zone-of-company",
      { domain: "example.org", below: "www.example.org", company: "acme of reseller one" },
    ],
    [
      "www.example.org lies below a zone of another reseller and answers in its place",
      "below-zone-of-others",
      { domain: "www.example.org" },
    ],
    [
      "example.org lies above a zone of another reseller, which answers for its own names",
      "above-zone-of-others",
      { domain: "example.org" },
    ],
    ["line 3, column 7: A address: x", "file-line", { line: "3", column: "7", reason: "A address: x" }],
    [
      "a CNAME beside other data (A) at www.example.org.",
      "cname-beside-data",
      { type: "A", owner: "www.example.org." },
    ],
    ["key 7 is published: a rollover is under way", "rollover-under-way", { tag: "7", state: "published" }],
    ["the parent of sub.test has a DS (key 7, 9): have it", "parent-has-ds", { domain: "sub.test", tags: "7, 9" }],
    [
      "the parent of sub.test was seen with the DS of key 7: have it",
      "parent-has-ds",
      { domain: "sub.test", tags: "7" },
    ],
    [
      "the NS of a.test. points to ns.a.test., which has no address in the zone (missing glue)",
      "no-glue",
      { owner: "a.test.", target: "ns.a.test." },
    ],
    ["line 4: duplicated record www.a.test. A", "line", { line: "4", reason: "duplicated record www.a.test. A" }],
    [
      "quota exceeded: octets of company acme: 10 allowed, 9 in use, 2 more wanted",
      "quota-exceeded",
      { quota: "octets", holder: "company acme", allowed: "10", used: "9", wanted: "2" },
    ],
    [
      "key 7 is revoked (flags 385, RFC 5011): a zone is not signed with such a key, make a new one",
      "key-revoked",
      { tag: "7", flags: "385" },
    ],
    ["the .private file: Prime1 is missing", "key-file", { file: ".private", reason: "Prime1 is missing" }],
    ["dominio remitente no permitido", "sender-domain-not-allowed", {}],
  ])("know %s of the APIs", (sentence, code, values) => {
    expect(knownSentence(sentence)).toEqual({ code, values });
  });

  it.each([
    ["192.0.2.999 is not an IPv4 address", "no-ipv4-address", { text: "192.0.2.999" }],
    ["must be at least 1", "at-least", { least: "1" }],
    ["must be at least 12 characters", "at-least-characters", { least: "12" }],
    ["must be a whole number from 0 to 65535", "whole-number-from-to", { least: "0", most: "65535" }],
    ["must be a JSON integer", "whole-number", {}],
    ["the name has an empty label", "empty-label", {}],
    ["digest: the digest is not hexadecimal: zz", "part-not-hexadecimal", { part: "digest" }],
    [
      "SOA serial: x is not a number from 0 to 9",
      "of-a-part",
      { part: "serial", reason: "x is not a number from 0 to 9" },
    ],
    ["Prime1 is missing", "key-number-missing", { name: "Prime1" }],
    ["PrivateKey has 33 octets, not 32", "key-number-length", { name: "PrivateKey", octets: "33", wanted: "32" }],
    ["Modulus has 512 bits, not 1024 to 4096", "key-modulus-bits", { bits: "512", least: "1024", most: "4096" }],
    ["Prime1 and Prime2 do not multiply to Modulus", "key-number-wrong", { name: "Prime1" }],
    ["address not allowed", "address-not-allowed", {}],
    ["status 503", "http-status", { status: "503" }],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "certificate", {}],
    ["The domain name b is not valid. It should have a period.", "domain-without-period", { domain: "b" }],
  ])("know the reason %s", (reason, code, values) => {
    expect(knownReason(reason)).toEqual({ code, values });
  });

  it("have words for all that is known, whose gaps the pattern fills", () => {
    for (const [table, words] of [
      [SENTENCES, sentences],
      [REASONS, reasons],
    ] as const) {
      for (const [pattern, code] of table) {
        const sentence = (words as Readonly<Record<string, string>>)[code];
        expect(sentence, code).toBeDefined();
        const filled = [...pattern.source.matchAll(/\(\?<(\w+)>/g)].map(([, name]) => `{${name}}`);
        expect(filled, code).toEqual(expect.arrayContaining(gapsOf(sentence!)));
      }
    }
  });

  it("say nothing of a sentence that is not known", () => {
    expect(knownSentence("the moon is in the wrong house")).toBeUndefined();
  });
});

describe("the console's texts", () => {
  it("have the same keys in both languages, in the same order", () => {
    expect(spanish.map(({ key }) => key)).toEqual(english.map(({ key }) => key));
  });

  it("are all there: none is empty", () => {
    expect([...english, ...spanish].filter((entry) => shown(entry).trim() === "").map(({ key }) => key)).toEqual([]);
  });

  it("have the same gaps in both languages", () => {
    const gaps = (entry: Entry) => ["7", "8", "9"].filter((filler) => shown(entry).includes(filler));
    const differing = english.filter(
      (entry, index) => typeof entry.text === "function" && gaps(entry).join() !== gaps(spanish[index]!).join(),
    );
    expect(differing.map(({ key }) => key)).toEqual([]);
  });

  it("are translated: what both languages share are names and words of the trade", () => {
    const shared = english.filter(
      (entry, index) => shown(entry) === shown(spanish[index]!) && shown(entry).length > 24,
    );
    expect(shared.map(({ key }) => key)).toEqual(["operator.feeds.triggerHint"]);
  });
});
