import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type ESTree, parseSync } from "vite";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

const services = join(packageFolder, "services");
const files = readdirSync(services, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));

it("no private member of a library is used", () => {
  const found = files.map((file) => [file, privateMembers(file, readFileSync(join(services, file), "utf8"))] as const);
  expect(Object.fromEntries(found.filter(([, names]) => names.length > 0))).toEqual({});
});

it("finds private members of every form", () => {
  const source = `
    class Ours extends Theirs { override _method() {} _field = 1; }
    thing._read; thing?._optional; thing["_quoted"];
    const { _taken, other: _discarded } = thing;
    function f(_unused, { _parameter }) {}`;
  expect(privateMembers("a.ts", source)).toEqual([
    "_field",
    "_method",
    "_optional",
    "_parameter",
    "_quoted",
    "_read",
    "_taken",
  ]);
});

/** @returns the names with an underscore in front that a file reads from objects, overrides or sets; each once, sorted */
function privateMembers(file: string, source: string): string[] {
  const names = new Set<string>();
  const note = (node: ESTree.Node) => {
    const name = node.type === "Identifier" ? node.name : node.type === "Literal" ? node.value : undefined;
    if (typeof name === "string" && /^_[a-z]\w*$/.test(name)) names.add(name);
  };
  const walk = (value: unknown) => {
    if (typeof value !== "object" || value === null) return;
    const node = value as ESTree.Node;
    if (node.type === "MemberExpression" && !(node.computed && node.property.type === "Identifier"))
      note(node.property);
    if ("key" in node && node.key && !("computed" in node && node.computed)) note(node.key as ESTree.Node);
    for (const child of Object.values(node)) walk(child);
  };
  const { program, errors } = parseSync(file, source);
  expect(errors).toEqual([]);
  walk(program);
  return [...names].sort();
}
