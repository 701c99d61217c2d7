import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageFolder } from "../../../../services/platform/package-folder.ts";
import { splitCommands } from "../../../../services/platform/postgres/sql-commands.ts";

describe("a semicolon ends no command", () => {
  test.each([
    ["in a text", "select 'a;''b;'"],
    ["in a text with a backslash at its end", "select ';\\'"],
    ["in a text with escapes", "select e'a\\';b', E'\\\\;'"],
    ["in a name", 'create table "a;""b" (id int)'],
    ["in a body", "create function f() returns int language sql as $$ select 1; $$"],
    ["in a body with another's mark", "do $body$ begin execute $$ select ';$body'; $$; end $body$"],
    ["in a comment of a line", "select 1 -- 'one; $$\n + 1"],
    ["in a comment with comments", "select /* a; /* b; ' */ c; $$ */ 1"],
    ["in brackets", "create rule r as on insert to t do also (select 1; select 2)"],
    ["behind a name with dollars", "select a$b$, 1 as c$b$"],
    ["in a parameter's neighbourhood", "prepare p as select $1, $2, ';'"],
  ])("%s", (_where, command) => {
    expect(splitCommands(`${command};\nselect 2`)).toEqual([`${command};`, "\nselect 2"]);
  });
});

test("what ends with its last command has no other behind it", () => {
  expect(splitCommands("select 1;\n\n")).toEqual(["select 1;"]);
  expect(splitCommands("select 1; -- one\n")).toEqual(["select 1;"]);
  expect(splitCommands("\n")).toEqual([]);
});

test("every migration is its commands, of which each says one thing", () => {
  const folder = join(packageFolder, "migrations");
  const scripts = readdirSync(folder).map((file) => readFileSync(join(folder, file), "utf8"));
  const commands = scripts.flatMap((script) => {
    const parts = splitCommands(script);
    expect(script.startsWith(parts.join(""))).toBe(true);
    return parts;
  });
  const words = commands.map((command) => /^(?:\s|--.*\n)*(\w+)/.exec(command)?.[1]);
  expect([...new Set(words)].toSorted()).toEqual(["alter", "create", "do", "drop", "insert", "update"]);
});
