import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { type ESTree, parseSync } from "vite";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { ofInstances } from "../../services/store/mail/by-instance.ts";
import { ofPresent } from "../../services/store/mail/machines.ts";

/** A statement that a service writes out, with the type that it gives its rows. */
export interface WrittenStatement {
  /** File below `services/` and line. */
  readonly at: string;
  /** Every text that it may have; none where it is composed of what only a call knows. */
  readonly texts: readonly string[];
  /** By column, or by position where rows are tuples; undefined where the type says no columns. */
  readonly row: RowType | undefined;
  /** Rows are tuples. */
  readonly isTuple: boolean;
}

/** What a type admits: the names that {@link columnTypes} has, several of a union; undefined: anything. */
export type RowType = ReadonlyMap<string, ReadonlySet<TypeName> | undefined>;
export type TypeName =
  | "string"
  | "number"
  | "boolean"
  | "Date"
  | "octets"
  | "object"
  | "string[]"
  | "number[]"
  | "array";

type Node = ESTree.Node;
interface Place {
  readonly node: Node;
  readonly module: Module;
}

/** What names stand for where an expression is: constants around it, and what a function's parameters are given. */
interface Scope {
  readonly ancestors: readonly Node[];
  readonly given?: ReadonlyMap<string, readonly string[]>;
}

const services = join(packageFolder, "services");
const MOST_VARIANTS = 64;

const INSERTED_COLUMNS = /insert into \w+ \(([^)]*)\)\s+values $/;

/** What `StatementValues.addRows` adds for one row, behind the columns that it is inserted into. */
function oneRowOf(expression: Node, before: readonly string[] | undefined): string[] | undefined {
  if (expression.type !== "CallExpression" || expression.callee.type !== "MemberExpression") return undefined;
  const columns = INSERTED_COLUMNS.exec(before?.[0] ?? "")?.[1]?.split(",");
  if (columns === undefined || !isNamed(expression.callee.property, "addRows")) return undefined;
  return [`(${columns.map((_, index) => `$${index + 1}`).join(", ")})`];
}

/** Finds every call of `queryRows` below `services/`. */
export function findWrittenStatements(): WrittenStatement[] {
  const files = readdirSync(services, { recursive: true, encoding: "utf8" });
  return files.filter((file) => file.endsWith(".ts")).flatMap((file) => new Module(join(services, file)).statements());
}

/** One file, and what its names stand for. */
class Module {
  static readonly #known = new Map<string, Module>();
  readonly #path: string;
  readonly #source: string;
  readonly #program: ESTree.Program;

  constructor(path: string) {
    this.#path = path;
    this.#source = readFileSync(path, "utf8");
    this.#program = parseSync(path, this.#source).program;
  }

  static at(path: string): Module {
    const module = Module.#known.get(path) ?? new Module(path);
    Module.#known.set(path, module);
    return module;
  }

  statements(): WrittenStatement[] {
    const found: WrittenStatement[] = [];
    visit(this.#program, [], (node, ancestors) => {
      if (node.type !== "CallExpression" || !isNamed(node.callee, "queryRows") || node.arguments[1] === undefined)
        return;
      const type = node.typeArguments?.params[0] ?? returnedRow(node, ancestors);
      const row = type && rowOf({ node: type, module: this });
      const line = this.#source.slice(0, node.start).split("\n").length;
      found.push({
        at: `${relative(services, this.#path)}:${line}`,
        texts: (this.#textsOf(node.arguments[1], { ancestors }) ?? []).flatMap(withoutCursor),
        row,
        isTuple: this.#source.slice(node.start, node.end).includes('rowMode: "array"'),
      });
    });
    return found;
  }

  /** Every text that an expression may have; undefined where that is known at a call alone. */
  #textsOf(node: Node, scope: Scope): string[] | undefined {
    switch (node.type) {
      case "Literal":
        return typeof node.value === "string" || typeof node.value === "number" ? [String(node.value)] : undefined;
      case "TemplateLiteral":
        return node.quasis.reduce<string[] | undefined>(
          (texts, quasi, index) => {
            const expression = node.expressions[index - 1];
            const between =
              expression === undefined ? [""] : (oneRowOf(expression, texts) ?? this.#textsOf(expression, scope));
            const joined = texts && between?.flatMap((part) => texts.map((text) => text + part + quasi.value.cooked));
            return joined && joined.length <= MOST_VARIANTS ? joined : undefined;
          },
          [""],
        );
      case "ConditionalExpression": {
        const [one, other] = [this.#textsOf(node.consequent, scope), this.#textsOf(node.alternate, scope)];
        return one && other && [...one, ...other];
      }
      case "TSAsExpression":
      case "TSSatisfiesExpression":
        return this.#textsOf(node.expression, scope);
      case "Identifier": {
        const given = scope.given?.get(node.name);
        if (given) return [...given];
        const local = localConstant(node.name, scope.ancestors);
        if (local) return this.#textsOf(local, scope);
        const place = this.valueNamed(node.name);
        return place ? place.module.#textsOf(place.node, { ancestors: [] }) : undefined;
      }
      case "CallExpression":
        if (isNamed(node.callee, "onPresent")) return ["true", ofPresent(columnOf(node.arguments[1]), [1])];
        return isNamed(node.callee, "own") ? [ownRowsOf(node.arguments)] : this.#textsOfCall(node, scope);
      default:
        return undefined;
    }
  }

  /** Of a function of texts that does no more than put them into another. */
  #textsOfCall({ callee, arguments: args }: ESTree.CallExpression, scope: Scope): string[] | undefined {
    const place = callee.type === "Identifier" ? this.functionNamed(callee.name) : undefined;
    const composed = place && composedBy(place.node);
    if (!composed) return undefined;
    const given = new Map<string, readonly string[]>();
    for (const [index, parameter] of composed.parameters.entries()) {
      const argument = args[index];
      const texts = argument
        ? this.#textsOf(argument, scope)
        : parameter.fallback && place.module.#textsOf(parameter.fallback, { ancestors: [] });
      // What a condition asks alone need not be a text.
      if (texts) given.set(parameter.name, texts);
    }
    return place.module.#textsOf(composed.text, { ancestors: [], given });
  }

  /** What a function's name stands for, here or where it is imported from. */
  functionNamed(name: string): Place | undefined {
    const declared = this.#declarations().find(
      (node) => node.type === "FunctionDeclaration" && isNamed(node.id!, name),
    );
    if (declared) return { node: declared, module: this };
    const from = this.#importOf(name);
    return from ? from.module.functionNamed(from.name) : this.valueNamed(name);
  }

  /** What a constant of the module, or one that it imports, is initialised with. */
  valueNamed(name: string): Place | undefined {
    for (const declaration of this.#declarations()) {
      if (declaration.type !== "VariableDeclaration" || declaration.kind !== "const") continue;
      const found = declaration.declarations.find(({ id }) => isNamed(id, name));
      if (found?.init) return { node: found.init, module: this };
    }
    const from = this.#importOf(name);
    return from?.module.valueNamed(from.name);
  }

  /** What a type's name stands for, here or where it is imported from. */
  typeNamed(name: string): Place | undefined {
    const declared = this.#declarations().find(
      (node) =>
        (node.type === "TSInterfaceDeclaration" || node.type === "TSTypeAliasDeclaration") && isNamed(node.id, name),
    );
    if (declared) return { node: declared, module: this };
    const from = this.#importOf(name);
    return from?.module.typeNamed(from.name);
  }

  #declarations(): Node[] {
    return this.#program.body.map((node) =>
      node.type === "ExportNamedDeclaration" && node.declaration ? node.declaration : node,
    );
  }

  #importOf(name: string): { readonly module: Module; readonly name: string } | undefined {
    for (const node of this.#program.body) {
      if (node.type !== "ImportDeclaration" || !node.source.value.startsWith(".")) continue;
      const found = node.specifiers.find(({ local }) => local.name === name);
      if (found?.type !== "ImportSpecifier" || found.imported.type !== "Identifier") continue;
      return { module: Module.at(resolve(dirname(this.#path), node.source.value)), name: found.imported.name };
    }
    return undefined;
  }
}

/** What a cursor is declared for; what it gives is tried by what fetches it. */
function withoutCursor(text: string): string[] {
  return /^\s*fetch /.test(text) ? [] : [text.replace(/^\s*declare \w+ no scroll cursor for\s/, "")];
}

/** What `ownRows` of store/mail has a statement say where tables are spread over machines. */
function ownRowsOf(args: readonly Node[]): string {
  const [table, ids] = args.map((arg) => (arg.type === "Literal" ? String(arg.value) : undefined));
  return ofInstances(table!, ids);
}

const columnOf = (arg: Node | undefined) => (arg?.type === "Literal" ? String(arg.value) : undefined);

/** The members of a row's type. */
function rowOf({ node, module }: Place): RowType | undefined {
  switch (node.type) {
    case "TSTypeOperator":
      return rowOf({ node: node.typeAnnotation, module });
    case "TSTupleType":
      return tupleOf(node, module);
    case "TSTypeLiteral":
      return membersOf(node.members, module);
    case "TSInterfaceDeclaration": {
      const inherited = node.extends.map(({ expression }) =>
        expression.type === "Identifier" ? rowNamed(expression.name, module) : undefined,
      );
      return merged([...inherited, membersOf(node.body.body, module)]);
    }
    case "TSTypeAliasDeclaration":
      return rowOf({ node: node.typeAnnotation, module });
    case "TSIntersectionType":
      return merged(node.types.map((type) => rowOf({ node: type, module })));
    case "TSTypeReference":
      return referencedRow(node, module);
    default:
      return undefined;
  }
}

/** By position; a tuple that is part of another gives its elements. */
function tupleOf({ elementTypes }: ESTree.TSTupleType, module: Module): RowType | undefined {
  const names: (ReadonlySet<TypeName> | undefined)[] = [];
  for (const type of elementTypes) {
    if (type.type !== "TSRestType") {
      names.push(namesOf({ node: type.type === "TSNamedTupleMember" ? type.elementType : type, module }));
      continue;
    }
    const rest = rowOf({ node: type.typeAnnotation, module });
    if (!rest) return undefined;
    names.push(...rest.values());
  }
  return new Map(names.map((name, index) => [String(index), name]));
}

function referencedRow(node: ESTree.TSTypeReference, module: Module): RowType | undefined {
  if (node.typeName.type !== "Identifier") return undefined;
  const { name } = node.typeName;
  const [first, second] = node.typeArguments?.params ?? [];
  if (name === "Readonly" && first) return rowOf({ node: first, module });
  if ((name === "Pick" || name === "Omit") && first && second) {
    const whole = rowOf({ node: first, module });
    const keys = new Set(literalsOf(second));
    return whole && new Map([...whole].filter(([key]) => keys.has(key) === (name === "Pick")));
  }
  return rowNamed(name, module);
}

function rowNamed(name: string, module: Module): RowType | undefined {
  const place = module.typeNamed(name);
  return place && rowOf(place);
}

function membersOf(members: readonly Node[], module: Module): RowType | undefined {
  const row = new Map<string, ReadonlySet<TypeName> | undefined>();
  for (const member of members) {
    if (member.type !== "TSPropertySignature" || member.key.type !== "Identifier") return undefined;
    const type = member.typeAnnotation?.typeAnnotation;
    row.set(member.key.name, type && namesOf({ node: type, module }));
  }
  return row;
}

function merged(rows: readonly (RowType | undefined)[]): RowType | undefined {
  return rows.includes(undefined) ? undefined : new Map(rows.flatMap((row) => [...row!]));
}

const KEYWORDS: Partial<Record<Node["type"], readonly TypeName[]>> = {
  TSStringKeyword: ["string"],
  TSNumberKeyword: ["number"],
  TSBooleanKeyword: ["boolean"],
  TSNullKeyword: [],
  TSUndefinedKeyword: [],
  TSTemplateLiteralType: ["string"],
  TSTypeLiteral: ["object"],
  TSInterfaceDeclaration: ["object"],
};

/** What a column's type admits, null apart. */
function namesOf({ node, module }: Place): ReadonlySet<TypeName> | undefined {
  const keyword = KEYWORDS[node.type];
  if (keyword) return new Set(keyword);
  switch (node.type) {
    case "TSLiteralType":
      return node.literal.type === "Literal" ? new Set([typeof node.literal.value as TypeName]) : new Set(["string"]);
    case "TSUnionType":
      return union(node.types.map((type) => namesOf({ node: type, module })));
    case "TSTypeOperator":
      return namesOf({ node: node.typeAnnotation, module });
    case "TSArrayType": {
      const [element] = namesOf({ node: node.elementType, module }) ?? [];
      const name: TypeName = element === "string" || element === "number" ? `${element}[]` : "array";
      return new Set([name]);
    }
    case "TSTypeAliasDeclaration":
      return namesOf({ node: node.typeAnnotation, module });
    case "TSTypeReference": {
      if (node.typeName.type !== "Identifier") return undefined;
      const { name } = node.typeName;
      if (name === "Date") return new Set(["Date"]);
      if (name === "Buffer" || name === "Uint8Array") return new Set(["octets"]);
      if (name === "Record" || name === "Partial" || name === "Readonly") return new Set(["object"]);
      const place = module.typeNamed(name);
      return place && namesOf(place);
    }
    default:
      return undefined;
  }
}

function union(parts: readonly (ReadonlySet<TypeName> | undefined)[]): ReadonlySet<TypeName> | undefined {
  return parts.includes(undefined) ? undefined : new Set(parts.flatMap((part) => [...part!]));
}

function literalsOf(node: Node): string[] {
  if (node.type === "TSUnionType") return node.types.flatMap(literalsOf);
  return node.type === "TSLiteralType" && node.literal.type === "Literal" ? [String(node.literal.value)] : [];
}

/** Of a call that is what its function gives back: the element of the function's declared `Promise<…[]>`. */
function returnedRow(call: Node, ancestors: readonly Node[]): Node | undefined {
  const parent = ancestors.at(-1);
  const holder = parent?.type === "AwaitExpression" ? ancestors.at(-2) : parent;
  const around = ancestors.findLast(
    (node) =>
      node.type === "FunctionDeclaration" ||
      node.type === "ArrowFunctionExpression" ||
      node.type === "FunctionExpression",
  );
  if (!around || !("returnType" in around) || !("body" in around)) return undefined;
  const isReturned = holder?.type === "ReturnStatement" || (holder === around && around.body === call);
  const promised = around.returnType?.typeAnnotation;
  if (!isReturned || promised?.type !== "TSTypeReference") return undefined;
  const [rows] = promised.typeArguments?.params ?? [];
  const list = rows?.type === "TSTypeOperator" ? rows.typeAnnotation : rows;
  return list?.type === "TSArrayType" ? list.elementType : undefined;
}

interface Composed {
  readonly parameters: readonly { readonly name: string; readonly fallback?: Node }[];
  readonly text: Node;
}

/** The parameters and the result of a function that is one expression. */
function composedBy(node: Node): Composed | undefined {
  if (node.type !== "FunctionDeclaration" && node.type !== "ArrowFunctionExpression") return undefined;
  const parameters: { readonly name: string; readonly fallback?: Node }[] = [];
  for (const parameter of node.params) {
    const [name, fallback] = parameter.type === "AssignmentPattern" ? [parameter.left, parameter.right] : [parameter];
    // One that is taken apart is no text.
    parameters.push({ name: name.type === "Identifier" ? name.name : "", fallback });
  }
  const { body } = node;
  if (body?.type !== "BlockStatement") return body ? { parameters, text: body } : undefined;
  const [statement] = body.body;
  const isOne = body.body.length === 1 && statement?.type === "ReturnStatement" && statement.argument;
  return isOne ? { parameters, text: isOne } : undefined;
}

function localConstant(name: string, ancestors: readonly Node[]): Node | undefined {
  for (const around of ancestors.toReversed()) {
    if (around.type !== "BlockStatement") continue;
    for (const statement of around.body) {
      if (statement.type !== "VariableDeclaration" || statement.kind !== "const") continue;
      const found = statement.declarations.find(({ id }) => isNamed(id, name));
      if (found?.init) return found.init;
    }
  }
  return undefined;
}

function isNamed(node: Node, name: string): boolean {
  return node.type === "Identifier" && node.name === name;
}

function visit(node: Node, ancestors: readonly Node[], look: (node: Node, ancestors: readonly Node[]) => void): void {
  look(node, ancestors);
  const within = [...ancestors, node];
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child === "object" && child !== null && typeof (child as Node).type === "string") {
        visit(child as Node, within, look);
      }
    }
  }
}
