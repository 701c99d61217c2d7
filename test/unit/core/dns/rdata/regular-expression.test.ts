import { expect, it } from "vitest";
import { countGroups } from "../../../../../services/core/dns/rdata/regular-expression.ts";

it.each([
  ...[
    "^.*$",
    "^(.*)$",
    "^\\+?([0-9]+)$",
    "urn:cid:.+@([^\\.]+\\.)(.*)$",
    "a|b|(c|d)*",
    "[]a]",
    "[^]a-]",
    "[[:alpha:]_]+",
  ],
  ...["a{2}", "a{2,}b", "(ab){1,3}", "\\(\\)", "]}", "^", "$", "a^b$c", "(^a|b$)"],
])("%j is one", (text) => expect(countGroups(text)).toBeDefined());

it.each([
  ...["", "(a", "a)", "()", "(a|)", "|a", "a||b", "*a", "a**", "a+?", "^*", "(*a)", "[a", "[]", "[z-a]", "[[:alpha:]"],
  ...["a{3,1}", "a{,2}", "a{256}", "{2}", "a{2}{3}", "a{b", "(a)\\1", "a\\", "\0", "a[\0]"],
  ...["[a-c-e]", "[a-c-]", "[[.a]", "[[=]", "[[:alpha]", "[[:foo:]]", "[[.hyphen.]-z]", "[[:alpha:]-z]", "[a-[.z.]]"],
])("%j is none", (text) => expect(countGroups(text)).toBeUndefined());

it("counts groups, but no parenthesis within brackets or behind a backslash", () => {
  expect(["(a)(b(c))", "[(]", "\\("].map(countGroups)).toEqual([3, 0, 0]);
});
