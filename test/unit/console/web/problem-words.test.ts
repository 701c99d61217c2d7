import { describe, expect, test } from "vitest";
import { refusalText } from "../../../../services/console/refusal-text.ts";
import type { Problem } from "../../../../services/console/web/src/http.ts";
import { describeProblem, describeReason } from "../../../../services/console/web/src/problem-words.ts";
import { type Language, language, loadTexts } from "../../../../services/console/web/src/texts.ts";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import type { LimitRule } from "../../../../services/core/mail/guard/sending-limits.ts";
import { conflict, forbidden, invalidField, type Refusal, sentenceOf } from "../../../../services/core/refusal.ts";
import { sentence } from "../../../../services/core/sentences.ts";
import { readRecord } from "../../../../services/dns-api/record-json.ts";
import { sendRefusal } from "../../../../services/operations/mail/send-refusal.ts";
import { statusOf } from "../../../../services/platform/http/dialect.ts";

async function speak(inLanguage: Language): Promise<void> {
  language.value = inLanguage;
  await loadTexts();
}

/** A refusal as a page says it. */
async function said(refusal: Refusal, inLanguage: Language): Promise<string> {
  await speak(inLanguage);
  const wait = refusal.kind === "rate-limited" ? { retryAfterSeconds: refusal.retryAfterSeconds } : {};
  const problem: Problem = { ...sentenceOf(refusal), status: statusOf(refusal), body: undefined, ...wait };
  // Intl parts hours from what follows by a space that does not break.
  return describeProblem(problem).replace(/[\u00a0\u202f]/g, " ");
}

describe("what asks to wait", () => {
  test.each([
    [1, "Too many requests. Try again in 1 second.", "Demasiadas solicitudes. Vuelva a intentar en 1 segundo."],
    [119, "Too many requests. Try again in 119 seconds.", "Demasiadas solicitudes. Vuelva a intentar en 119 segundos."],
    [121, "Too many requests. Try again in 3 minutes.", "Demasiadas solicitudes. Vuelva a intentar en 3 minutos."],
    [17_928, "Too many requests. Try again in 5 hours.", "Demasiadas solicitudes. Vuelva a intentar en 5 horas."],
  ])("%i seconds", async (retryAfterSeconds, en, es) => {
    const refusal: Refusal = { kind: "rate-limited", retryAfterSeconds };
    expect(await said(refusal, "en")).toBe(en);
    expect(await said(refusal, "es")).toBe(es);
  });

  test("says which limit is reached, of whom, and until when", async () => {
    const goesOnAt = new Date(2026, 11, 1, 9);
    const rule: LimitRule = { key: "campaign 7", perHour: null, perDay: 100, over: "refuse" };
    const reached = sendRefusal({ kind: "limit-reached", rule, grain: "day", allowed: 100, goesOnAt }, 0);
    const en = "Limit reached: 100 per day (of campaign 7). Sending resumes on Dec 1, 2026, 9:00:00 AM.";
    expect(await said(reached, "en")).toBe(en);
    const es = "Límite alcanzado: 100 por día (de la campaña 7). Los envíos se reanudan el 1 dic 2026, 9:00:00.";
    expect(await said(reached, "es")).toBe(es);
    expect(refusalText(reached)).toMatch(/^limite de envios alcanzado: 100 por dia \(campana 7\), sigue 2026-/);
  });

  test("says what is unfinished", async () => {
    const refusal: Refusal = { kind: "rate-limited", retryAfterSeconds: 60, ...sentence("jobs-unfinished") };
    expect(await said(refusal, "en")).toBe("Too many imports are still at work. Try again when one has ended.");
  });
});

const apex = parseDomainName("example.org.");

test.each([
  ["TLSA", "3 1 1 zz", "data: not hexadecimal: “zz”", "los datos: no en hexadecimal: «zz»"],
  ["TLSA", "3 1 1 aabb", "data: its algorithm makes 32 octets, not 2", "los datos: su algoritmo da 32 octetos, no 2"],
  ["NAPTR", "\\# 9 00010002012B000000", "flags: octets that are not lawful", "los indicadores: octetos no válidos"],
  ["CNAME", "", "target: is missing", "el destino: sin completar"],
  ["CAA", '0 "issue" x', "tag: must not be quoted", "la etiqueta: no puede ir entre comillas"],
  ["DNSKEY", "256 2 5 AQPSKmyn", "protocol: must be 3, not 2", "el protocolo: debe ser 3, no 2"],
  ["LOC", "0 0 E 0m", "location: latitude: does not end in N or S", "el lugar: la latitud: no termina en N ni en S"],
  ["AFSDB", "x h.example.org.", "subtype: “x” is not a number from 0", "el subtipo: «x» no es un número de 0"],
])("what is wrong with the data of a record names its part once: %s %s", async (type, value, en, es) => {
  const draft = { name: "@", type, value };
  if (!apex.ok) throw new Error("example.org is a name");
  const read = readRecord(draft, apex.value);
  if (read.ok) throw new Error("it is lawful");
  expect(await said(read.error, "en")).toContain(en);
  expect(await said(read.error, "es")).toContain(es);
});

test("why a send rests, and what happened to a message, are said in the reader's language", async () => {
  const bounces = sentence("bounces-above", { bounced: 5, tried: 10, limit: 5 });
  await speak("en");
  expect(describeReason(sentence("paused-by", { login: "ana" }))).toBe("by ana");
  expect(describeReason(bounces)).toBe("bounces: 5 of 10 recipients (limit 5%)");
  await speak("es");
  expect(describeReason(sentence("paused-by", { login: "ana" }))).toBe("por ana");
  expect(describeReason(bounces)).toBe("rebotes: 5 de 10 destinatarios (límite 5 %)");
});

test.each([
  [
    invalidField("scope", "no-such-scope", { role: "instance", name: "x" }),
    "there is no instance x",
    "no existe la instancia x",
  ],
  [invalidField("subject", "limit-subject", { scope: "sender" }), "this is no sender", "esto no es un remitente"],
  [invalidField("access", "one-of", { choices: "read or write" }), "read or write", "read o write"],
  [forbidden("operators-setting", { setting: "event_days" }), "days of events", "días de los eventos"],
  [conflict("suppression-kind-unfit", { kind: "complaint" }), "listed as complaint", "anotar como queja"],
])("names within sentences are the reader's: %j", async (refusal, en, es) => {
  expect(await said(refusal, "en")).toContain(en);
  expect(await said(refusal, "es")).toContain(es);
});
