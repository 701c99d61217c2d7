import { dirname, resolve } from "node:path";
import { ok, type Result, refuse } from "../core/result.ts";

/** A zone that a BIND configuration serves as primary. */
export interface PrimaryZone {
  readonly name: string;
  /** Absolute path of its master file; undefined where none is named. */
  readonly file: string | undefined;
}

/** One statement: its words, and what stands in its braces. */
interface Statement {
  readonly words: readonly string[];
  readonly block?: readonly Statement[];
}

/** Files that include one another without end are nobody's configuration. */
const MOST_INCLUDES = 1_000;

/**
 * Reads a BIND configuration (named.conf) and all it includes, and gives the primary zones of class IN, in views too.
 * @param read gives the text of a file; it may throw
 */
export function readNamedConf(path: string, read: (path: string) => string): Result<PrimaryZone[], string> {
  const statements: Statement[] = [];
  const waiting = [resolve(path)];
  for (let files = 0; waiting.length > 0; files += 1) {
    if (files === MOST_INCLUDES) return refuse(`${path} includes more than ${MOST_INCLUDES} files`);
    const file = waiting.shift() as string;
    const parsed = parseStatements(read(file));
    if (!parsed.ok) return refuse(`${file}: ${parsed.error}`);
    statements.push(...parsed.value);
    const folder = dirname(resolve(path));
    waiting.push(...everyStatement(parsed.value, "include").map(({ words }) => resolve(folder, words[1] ?? "")));
  }
  const options = statements.find(({ words }) => words[0] === "options");
  const directory = resolve(dirname(resolve(path)), optionOf(options, "directory") ?? ".");
  return ok(everyStatement(statements, "zone").flatMap((zone) => primaryZone(zone, directory) ?? []));
}

function primaryZone(zone: Statement, directory: string): PrimaryZone | undefined {
  const [, name, zoneClass = "in"] = zone.words;
  const type = optionOf(zone, "type");
  const file = optionOf(zone, "file");
  const isPrimary = type === "primary" || type === "master";
  if (!isPrimary || name === undefined || zoneClass.toLowerCase() !== "in") return undefined;
  return { name, file: file === undefined ? undefined : resolve(directory, file) };
}

function optionOf(statement: Statement | undefined, name: string): string | undefined {
  return statement?.block?.find(({ words }) => words[0] === name)?.words[1];
}

/** Statements of this name at the top and inside views. */
function everyStatement(statements: readonly Statement[], name: string): Statement[] {
  return statements.flatMap((statement) => {
    if (statement.words[0] === name) return [statement];
    return statement.words[0] === "view" ? everyStatement(statement.block ?? [], name) : [];
  });
}

function parseStatements(text: string): Result<Statement[], string> {
  const tokens = tokenise(text);
  if (!tokens.ok) return tokens;
  let next = 0;
  const parseBlock = (isNested: boolean): Statement[] | undefined => {
    const statements: Statement[] = [];
    let words: string[] = [];
    let block: Statement[] | undefined;
    for (;;) {
      const token = tokens.value[next++];
      if (token === undefined) return isNested || words.length > 0 ? undefined : statements;
      if (token.mark === ";") {
        if (words.length > 0 || block) statements.push(block ? { words, block } : { words });
        words = [];
        block = undefined;
      } else if (token.mark === "{") {
        block = parseBlock(true);
        if (!block) return undefined;
      } else if (token.mark === "}") {
        return isNested && words.length === 0 ? statements : undefined;
      } else words.push(token.text);
    }
  };
  const statements = parseBlock(false);
  return statements ? ok(statements) : refuse("braces and semicolons do not match");
}

interface Token {
  readonly mark?: string;
  readonly text: string;
}

/** Quoted strings, words, `{`, `}` and `;`; comments of the three kinds that BIND knows are skipped. */
function tokenise(text: string): Result<Token[], string> {
  const pattern = /\s+|\/\*[\s\S]*?\*\/|(?:\/\/|#).*|"((?:[^"\\]|\\[\s\S])*)"|([{};])|((?:(?!\/\/|\/\*)[^\s{};"#])+)/y;
  const tokens: Token[] = [];
  while (pattern.lastIndex < text.length) {
    const start = pattern.lastIndex;
    const match = pattern.exec(text);
    if (!match) return refuse(`line ${text.slice(0, start).split("\n").length} cannot be read`);
    const [, quoted, mark, word] = match;
    if (quoted !== undefined) tokens.push({ text: quoted.replaceAll(/\\([\s\S])/g, "$1") });
    else if (mark !== undefined) tokens.push({ mark, text: mark });
    else if (word !== undefined) tokens.push({ text: word });
  }
  return ok(tokens);
}
