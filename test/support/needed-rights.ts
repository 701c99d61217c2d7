import type { Right } from "../../services/store/database-roles.ts";
import { type ReachedDeclaration, reachedFrom } from "./reached-code.ts";
import { findWrittenStatements, type WrittenStatement } from "./written-statements.ts";

/** What the code that a service can come to needs of the database. */
export interface NeededRights {
  /** By table, for all that a declaration says: more than is needed where its words are not one statement's. */
  readonly rights: ReadonlyMap<string, ReadonlySet<Right>>;
  /** The statements that are written out. */
  readonly statements: readonly { readonly at: string; readonly text: string }[];
}

/** Where each role's programs begin. Each service has the supervisor's reports beside it (services/cli). */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  "mail-api": ["mail-api/main.ts", "mail-api/large-requests.ts"],
  "dns-api": ["dns-api/main.ts", "dns-api/large-requests.ts"],
  "dns-server": ["dns-server/main.ts"],
  submission: ["submission/main.ts"],
  delivery: ["delivery/main.ts", "sandbox/main.ts"],
  bounce: ["bounce/main.ts"],
  tracking: ["tracking/main.ts"],
  console: ["console/main.ts"],
};
const BESIDE_EACH = ["cli/node-reports.ts", "cli/service-database.ts", "cli/service-rights.ts"];

let written: readonly WrittenStatement[] | undefined;

/** @param tables of the database: what else stands behind `from` is a name within a statement */
export function findNeededRights(service: string, tables: readonly string[]): NeededRights {
  const reached = reachedFrom([...PROGRAMS[service]!, ...BESIDE_EACH]);
  const rights = new Map(tables.map((table) => [table, new Set<Right>()]));
  const stored = reached.filter(({ file }) => file.startsWith("store/"));
  for (const declaration of stored) {
    for (const [table, right] of rightsSaid(declaration, stored)) rights.get(table)?.add(right);
  }
  for (const needed of rights.values()) if (needed.size > 0) needed.add("select");
  const isReached = (at: string) => {
    const [file, line] = at.split(":") as [string, string];
    return reached.some(({ file: of, lines: [first, last] }) => of === file && first <= +line && +line <= last);
  };
  written ??= findWrittenStatements();
  const statements = written
    .filter(({ at }) => isReached(at))
    .flatMap(({ at, texts }) => texts.map((text) => ({ at, text })));
  return { rights, statements };
}

type Said = readonly [table: string, right: Right];

const VERBS: readonly (readonly [words: RegExp, right: Right])[] = [
  [/\b(?:from|join|using)\s+(\w+)|,\s*(\w+)/g, "select"],
  [/\binsert into (\w+)/g, "insert"],
  // As `copyIn` of store/ is given it.
  [/^(\w+) \(/g, "insert"],
  [/\bupdate (\w+)(?: as)?(?: \w+)?\s+set\b/g, "update"],
  [/\bdelete from (\w+)/g, "delete"],
];
const KNEX_VERBS: Readonly<Record<string, Right>> = {
  insert: "insert",
  update: "update",
  merge: "update",
  forUpdate: "update",
  forNoKeyUpdate: "update",
  forShare: "update",
  forKeyShare: "update",
  delete: "delete",
};

function rightsSaid(declaration: ReachedDeclaration, stored: readonly ReachedDeclaration[]): Said[] {
  const { texts, queried } = declaration;
  const named = texts.filter((text) => /^\w+$/.test(text));
  return [
    ...named.map((table): Said => [table, "select"]),
    ...queried.flatMap(([table, member]): Said[] => (member in KNEX_VERBS ? [[table, KNEX_VERBS[member]!]] : [])),
    ...texts.flatMap((text) => [...wordsOf(text), ...givenTables(text, declaration, stored)]),
  ];
}

function wordsOf(text: string): Said[] {
  const said = VERBS.flatMap(([words, right]) =>
    [...text.matchAll(words)].map(([, table, other]): Said => [(table ?? other)!, right]),
  );
  const changed = text.includes("do update")
    ? said.flatMap(([table, right]) => (right === "insert" ? [table] : []))
    : [];
  return [...said, ...[...changed, ...lockedBy(text)].map((table): Said => [table, "update"])];
}

/** Who locks rows has to be allowed to change them. */
function lockedBy(text: string): string[] {
  return [...text.matchAll(/\bfor (?:no key )?(?:update|share)\b|\bfor key share\b/g)].flatMap(
    ({ 0: words, index }) => {
      const query = queryBefore(text, index);
      const tables = new Map(
        [...query.matchAll(/\b(?:from|join)\s+(\w+)(?: as)?(?: (?!where\b|on\b|join\b|order\b)(\w+))?/g)].map(
          ([, table, alias]) => [alias ?? table!, table!],
        ),
      );
      const of = /^ of (\w+(?:, \w+)*)/.exec(text.slice(index + words.length))?.[1]?.split(", ");
      return of?.map((name) => tables.get(name) ?? name) ?? [...tables.values()];
    },
  );
}

/** The query that ends at a place, without those within it. */
function queryBefore(text: string, end: number): string {
  let depth = 0;
  let query = "";
  for (let at = end - 1; at >= 0 && depth >= 0; at -= 1) {
    if (text[at] === ")") depth += 1;
    else if (text[at] === "(") depth -= 1;
    else if (depth === 0) query = text[at] + query;
  }
  return query;
}

/** A statement that is given its table is about any that its file names. */
function givenTables(text: string, { file }: ReachedDeclaration, stored: readonly ReachedDeclaration[]): Said[] {
  const rights = wordsOf(text.replaceAll("?", "given")).flatMap(([table, right]) => (table === "given" ? [right] : []));
  if (rights.length === 0) return [];
  const others = stored.filter((declaration) => declaration.file === file);
  const tables = others.flatMap(({ texts }) => texts.filter((one) => /^\w+$/.test(one)));
  return tables.flatMap((table) => rights.map((right): Said => [table, right]));
}
