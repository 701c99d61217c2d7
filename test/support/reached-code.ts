import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { type ESTree, parseSync } from "vite";
import { packageFolder } from "../../services/platform/package-folder.ts";

type Node = ESTree.Node;

/** A declaration of a module's top level that a program can come to. */
export interface ReachedDeclaration {
  /** File below `services/`. */
  readonly file: string;
  /** The first and the last line. */
  readonly lines: readonly [first: number, last: number];
  /** Its literals and templates, with `?` in the place of what is put into one. */
  readonly texts: readonly string[];
  /** What is asked of knex: a table, and each member behind it, such as `delete` of `db("zones").where(…).delete()`. */
  readonly queried: readonly (readonly [table: string, member: string])[];
}

/** A declaration; one without names is what a module does when it is loaded. */
interface Unit {
  readonly node: Node;
  readonly names: readonly string[];
}

interface Origin {
  readonly file: string;
  /** `*`: the module whole. */
  readonly name: string;
}

interface Module {
  readonly file: string;
  readonly source: string;
  readonly units: readonly Unit[];
  /** Where a local name comes from, and a name that others import under. */
  readonly origins: ReadonlyMap<string, Origin>;
  readonly loads: readonly string[];
}

const services = join(packageFolder, "services");
const known = new Map<string, Module>();

/**
 * Follows names from modules through all that they import. A class counts whole, and so does a module that is imported at a
 * call or run as a program: more may be found than is ever run, and nothing that is run is missing.
 * @param entries files below `services/`
 */
export function reachedFrom(entries: readonly string[]): ReachedDeclaration[] {
  const reached = new Set<Unit>();
  const loaded = new Set<string>();
  const found: ReachedDeclaration[] = [];
  const load = (file: string, isWhole: boolean) => {
    const module = moduleAt(file);
    if (!loaded.has(file)) {
      loaded.add(file);
      for (const other of module.loads) load(other, false);
      for (const unit of module.units) if (unit.names.length === 0) reach(module, unit);
    }
    if (isWhole) for (const unit of module.units) reach(module, unit);
  };
  const reach = (module: Module, unit: Unit) => {
    if (reached.has(unit)) return;
    reached.add(unit);
    const { names, files, ...content } = contentOf(module, unit.node);
    found.push({ file: module.file, lines: linesOf(module, unit.node), ...content });
    for (const name of names) lookUp(module, name);
    for (const file of files) load(file, true);
  };
  const lookUp = (module: Module, name: string) => {
    for (const unit of module.units) if (unit.names.includes(name)) reach(module, unit);
    const origin = module.origins.get(name);
    if (origin?.name === "*") load(origin.file, true);
    else if (origin) lookUp(moduleAt(origin.file), origin.name);
  };
  for (const entry of entries) load(entry, true);
  return found;
}

function moduleAt(file: string): Module {
  const module = known.get(file) ?? readModule(file);
  known.set(file, module);
  return module;
}

function readModule(file: string): Module {
  const source = readFileSync(join(services, file), "utf8");
  const origins = new Map<string, Origin>();
  const units: Unit[] = [];
  const loads: string[] = [];
  for (const node of parseSync(file, source).program.body) {
    if (node.type === "ExportAllDeclaration" || node.type === "ExportDefaultDeclaration") {
      throw new Error(`${file}: what ${node.type} gives is not followed`);
    }
    if (node.type === "ImportDeclaration" || (node.type === "ExportNamedDeclaration" && !node.declaration)) {
      const from = node.source ? fileOf(file, node.source.value) : file;
      if (from === undefined) continue;
      if (from !== file) loads.push(from);
      for (const [name, origin] of namesOf(node)) origins.set(name, { file: from, name: origin });
    } else {
      units.push(...unitsOf(node.type === "ExportNamedDeclaration" ? node.declaration! : node));
    }
  }
  return { file, source, units, origins, loads };
}

/** The names that an import or a list of exports has here, each with that in the module that it comes from. */
function namesOf(node: ESTree.ImportDeclaration | ESTree.ExportNamedDeclaration): [name: string, origin: string][] {
  const written = (name: Node) =>
    name.type === "Identifier" ? name.name : String((name as ESTree.StringLiteral).value);
  return node.specifiers.flatMap((specifier): [string, string][] => {
    if (specifier.type === "ImportSpecifier") return [[specifier.local.name, written(specifier.imported)]];
    if (specifier.type !== "ExportSpecifier") return [[specifier.local.name, "*"]];
    const [name, origin] = [written(specifier.exported), written(specifier.local)];
    return node.source || name !== origin ? [[name, origin]] : [];
  });
}

function unitsOf(node: Node): Unit[] {
  switch (node.type) {
    case "VariableDeclaration":
      return node.declarations.map((declared) => ({
        node: declared,
        names: [...contentOf(undefined, declared.id).names],
      }));
    case "FunctionDeclaration":
    case "ClassDeclaration":
      return [{ node, names: [node.id!.name] }];
    default:
      return node.type.startsWith("TS") ? [] : [{ node, names: [] }];
  }
}

/** What a piece of code names, says, and runs of other files. */
function contentOf(module: Module | undefined, code: Node) {
  const names = new Set<string>();
  const texts: string[] = [];
  const members: (readonly [object: Node, name: string])[] = [];
  const variables = new Map<string, Node>();
  const files: string[] = [];
  visit(code, (node) => {
    if (node.type === "Identifier") names.add(node.name);
    if (node.type === "MemberExpression" && node.property.type === "Identifier") {
      members.push([node.object, node.property.name]);
    }
    if (node.type === "VariableDeclarator" && node.id.type === "Identifier" && node.init) {
      variables.set(node.id.name, node.init);
    }
    if (node.type === "TemplateLiteral") texts.push(node.quasis.map(({ value }) => value.cooked).join("?"));
    for (const text of textOf(node)) {
      texts.push(text);
      const file = module && (fileOf(module.file, text) ?? programNamed(text));
      if (file !== undefined) files.push(file);
    }
  });
  const queried = members.flatMap(([object, name]) =>
    tableOf(object, variables).map((table) => [table, name] as const),
  );
  return { names, texts, queried, files };
}

/** The table that a chain of calls begins with, be it by way of a variable. */
function tableOf(node: Node, variables: ReadonlyMap<string, Node>): string[] {
  if (node.type === "MemberExpression") return tableOf(node.object, variables);
  if (node.type === "AwaitExpression") return tableOf(node.argument, variables);
  if (node.type === "Identifier") {
    const others = new Map([...variables].filter(([name]) => name !== node.name));
    const init = variables.get(node.name);
    return init ? tableOf(init, others) : [];
  }
  if (node.type !== "CallExpression") return [];
  return node.callee.type === "Identifier" ? textOf(node.arguments[0]) : tableOf(node.callee, variables);
}

function textOf(node: Node | undefined): string[] {
  return node?.type === "Literal" && typeof node.value === "string" ? [node.value] : [];
}

/** What `import("./it.ts")` names, or the source of an import. */
function fileOf(file: string, source: string): string | undefined {
  if (!/^\.{1,2}\/.+\.ts$/.test(source)) return undefined;
  return relative(services, resolve(services, dirname(file), source));
}

/** What `programFile` of platform/package-folder.ts is given. */
function programNamed(text: string): string | undefined {
  return /^[\w-]+(?:\/[\w-]+)+$/.test(text) && existsSync(join(services, `${text}.ts`)) ? `${text}.ts` : undefined;
}

function linesOf({ source }: Module, { start, end }: Node): [number, number] {
  const lineAt = (place: number) => source.slice(0, place).split("\n").length;
  return [lineAt(start), lineAt(end)];
}

const TYPES = ["typeAnnotation", "typeArguments", "typeParameters", "returnType"];

/** Types run nothing, and what stands behind a dot, or names a property, is no name of the module's. */
function visit(node: Node, look: (node: Node) => void): void {
  look(node);
  for (const [key, value] of Object.entries(node)) {
    if (TYPES.includes(key)) continue;
    if (node.type === "MemberExpression" && key === "property" && !node.computed) continue;
    if (node.type === "Property" && key === "key" && !node.computed) continue;
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child === "object" && child !== null && typeof (child as Node).type === "string") {
        visit(child as Node, look);
      }
    }
  }
}
