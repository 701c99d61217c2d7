import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ZodObject } from "zod";
import { makeConsoleEndpoints } from "../../../../services/console/app.ts";
import type { ConsoleContext } from "../../../../services/console/context.ts";
import { en } from "../../../../services/console/web/src/texts/en/index.ts";
import { es } from "../../../../services/console/web/src/texts/es/index.ts";
import { rdataShape } from "../../../../services/core/dns/rdata/rdata.ts";
import { SENTENCES, type SentenceCode } from "../../../../services/core/sentences.ts";

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

/** Of sentences the server has words of its own: English ones stand here only where pages say it otherwise. */
const isOfSentences = ({ key }: Entry) => /^problems\.(sentences|reasons)\./.test(key);
const english = entriesOf(en).filter((entry) => !isOfSentences(entry));
const spanish = entriesOf(es).filter((entry) => !isOfSentences(entry));

/** What a sentence's gaps are called, each once, in the order of the alphabet. */
const gapsOf = (sentence: string) => [...new Set(sentence.match(/\{\w+\}/g))].sort();

describe("the texts of problems", () => {
  const words = {
    en: { ...en.problems.reasons, ...en.problems.sentences },
    es: { ...es.problems.reasons, ...es.problems.sentences },
  };
  const codes = Object.keys(SENTENCES) as SentenceCode[];

  it("are there for every code in Spanish", () => {
    expect(codes.filter((code) => words.es[code] === undefined)).toEqual([]);
  });

  it("are there in English for every code whose own words are Spanish", () => {
    const spanish =
      /[^a-z](no existe|invalid[oa]|invalid |requerida|repetida|envio|enviado|falta|pausado|rebotes|demasiadas|linea|dominio|inaccesible)/i;
    const missing = codes.filter((code) => spanish.test(` ${SENTENCES[code]}`) && words.en[code] === undefined);
    expect(missing).toEqual([]);
  });

  it.each(["en", "es"] as const)("want no more than a sentence of the code tells (%s)", (language) => {
    for (const code of codes) {
      for (const { sentences, reasons } of [{ en, es }[language].problems]) {
        for (const text of [sentences[code], reasons[code]]) {
          expect(gapsOf(SENTENCES[code]), code).toEqual(expect.arrayContaining(gapsOf(text ?? "")));
        }
      }
    }
  });

  it("name every part of a record's data", () => {
    const types = Array.from({ length: 0x10000 }, (_, type) => rdataShape(type)?.fields ?? []).flat();
    const ofLocation = ["latitude", "longitude", "altitude"];
    const names = new Set([...types.map(({ name }) => name), "ttl", ...ofLocation]);
    expect([...names].filter((name) => !(name in en.problems.parts && name in es.problems.parts))).toEqual([]);
  });

  it("are sentences, or parts of them", () => {
    for (const { sentences, reasons } of [en.problems, es.problems]) {
      expect(Object.values(sentences).filter((text) => !/[.}]$/.test(text))).toEqual([]);
      expect(Object.values(reasons).filter((text) => /\.$/.test(text))).toEqual([]);
    }
  });
});

describe("the console's texts", () => {
  it("have the same keys in both languages, in the same order", () => {
    expect(spanish.map(({ key }) => key)).toEqual(english.map(({ key }) => key));
  });

  it("are all there: none is empty", () => {
    expect([...english, ...spanish].filter((entry) => shown(entry).trim() === "").map(({ key }) => key)).toEqual([]);
  });

  it.each([
    ["en", en, english],
    ["es", es, spanish],
  ] as const)(
    "ask before something is deleted by the word of the button that does it (%s)",
    (_language, texts, entries) => {
      const titles = entries.filter(({ key }) => /\.(removeTitle|removeRuleTitle|followers\.remove)$/.test(key));
      expect(titles.length).toBeGreaterThan(15);
      for (const title of titles) {
        const own = entries.find(({ key }) => key !== title.key && key === title.key.replace(/\.\w+$/, ".remove"));
        const [verb] = String(own?.text ?? texts.shell.remove).split(" ");
        expect(shown(title).replace("¿", ""), title.key).toMatch(new RegExp(`^${verb} `));
      }
    },
  );

  it("say one of one", () => {
    const told = [en, es].map(({ mail, dns }) => [
      mail.guard.letGone("1"),
      mail.judge.points("1"),
      mail.webhooks.ofCampaigns("1"),
      mail.webhooks.ofCampaigns("1, 2"),
      mail.webhooks.failing("1"),
      dns.followers.timeline("192.0.2.1", "1"),
    ]);
    expect(told).toEqual([
      [
        ...["1 recipient goes now", "1 point", "campaign 1", "campaigns 1, 2", "1 failure"],
        "192.0.2.1: went down once",
      ],
      [...["1 destinatario sale ahora", "1 punto", "campaña 1", "campañas 1, 2", "1 fallo"], "192.0.2.1: cayó 1 vez"],
    ]);
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

describe("what the audit log tells", () => {
  const console = "services/console";
  const sources = ["routes", "."].flatMap((folder) =>
    readdirSync(join(console, folder))
      .filter((name) => name.endsWith(".ts"))
      .map((name) => readFileSync(join(console, folder, name), "utf8")),
  );
  const told = sources.flatMap((source) =>
    [...source.matchAll(/[^/\w]"([a-z-]+)\.([a-z-]+)"/g)].map(([, ...of]) => of),
  );
  const madeUp = sources.flatMap((source) => [...source.matchAll(/action: `([a-z-]+)\./g)].map(([, thing]) => thing));

  it("has words", () => {
    const { things, deeds } = en.operator.audit;
    const known = told.filter(([, deed]) => deed !== "html");
    expect(known.length).toBeGreaterThan(60);
    expect(known.filter(([thing, deed]) => !(thing! in things && deed! in deeds))).toEqual([]);
    expect(madeUp.filter((thing) => !(thing! in things))).toEqual([]);
  });

  it("has words for what it says of each change", () => {
    const declared = makeConsoleEndpoints({ config: {}, clock: {} } as ConsoleContext);
    const details = declared.flatMap(({ change, fields }) => {
      const given =
        fields instanceof ZodObject
          ? Object.fromEntries(Object.keys(fields.shape).map((name) => [name, undefined]))
          : {};
      return change?.detail ? Object.keys(change.detail({ params: {}, fields: given })) : [];
    });
    const names = new Set([...details, ...["limit", "failures", "until"]]);
    expect(names.size).toBeGreaterThan(40);
    expect([...names].filter((name) => !(name in en.operator.audit.fields))).toEqual([]);
  });
});
