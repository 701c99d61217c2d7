import { describe, expect, test } from "vitest";
import {
  countStrayBreaks,
  fieldValue,
  joinMessage,
  normaliseLineEndings,
  splitMessage,
} from "../../../../services/core/mail/message.ts";

const octets = (text: string) => Buffer.from(text, "latin1");

describe("splitting", () => {
  test.each([
    ["a usual message", "From: a\r\nTo: b\r\n\tc\r\n\r\nbody\r\n", ["from", "to"], "body\r\n"],
    ["no body", "From: a\r\n\r\n", ["from"], ""],
    ["no header", "\r\nbody", [], "body"],
    ["an empty line in the body", "A: b\r\n\r\n\r\n\r\nc", ["a"], "\r\n\r\nc"],
    ["a line that is no field", "A: b\r\nnonsense\r\nC : d\r\n\r\nx", ["a", "", "c"], "x"],
    ["a folded last field", "A: b\r\n c\r\n\r\nx", ["a"], "x"],
  ])("%s", (_, text, names, body) => {
    const parts = splitMessage(octets(text));
    expect(parts.fields.map(({ name }) => name)).toEqual(names);
    expect(parts.body.toString("latin1")).toBe(body);
    expect(joinMessage(parts).toString("latin1")).toBe(text);
  });

  test("a header without an empty line has no body", () => {
    const parts = splitMessage(octets("A: b\r\nC: d\r\n"));
    expect(parts.fields).toHaveLength(2);
    expect(parts.body).toHaveLength(0);
  });

  test("a field's value is unfolded, and octets beyond ASCII are kept", () => {
    const [field] = splitMessage(Buffer.from("Subject:  a\r\n  b à\r\n\r\n", "utf8")).fields;
    if (field === undefined) throw new Error("no field");
    expect(Buffer.from(fieldValue(field), "latin1").toString("utf8")).toBe("a  b à");
  });
});

describe("line endings", () => {
  test.each([
    ["a\r\nb", "a\r\nb", 0],
    ["a\nb\n", "a\r\nb\r\n", 2],
    ["a\rb", "a\r\nb", 1],
    ["a\r\r\nb", "a\r\n\r\nb", 1],
    ["a\n\rb\r", "a\r\n\r\nb\r\n", 3],
    ["\n", "\r\n", 1],
    ["", "", 0],
  ])("%j", (given, normal, strayBreaks) => {
    expect(countStrayBreaks(octets(given))).toBe(strayBreaks);
    expect(normaliseLineEndings(octets(given)).toString("latin1")).toBe(normal);
  });
});
