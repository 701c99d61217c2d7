/** Texts, names and comments that may hold a semicolon, and what nests. @see PostgreSQL documentation, 4.1 */
const TOKEN =
  /--[^\n]*|\/\*|[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$((?:[\p{L}_][\p{L}\d_]*)?)\$.*?\$\1\$|[\p{L}_][\p{L}\d_$]*|[();]/gsu;

/**
 * The commands of a script, each with what stands before it. Bodies of functions are to be texts: `begin atomic` is not known.
 */
export function splitCommands(script: string): string[] {
  const token = new RegExp(TOKEN);
  const commands: string[] = [];
  let start = 0;
  let depth = 0;
  for (let found = token.exec(script); found !== null; found = token.exec(script)) {
    const [text] = found;
    if (text === "/*") token.lastIndex = endOfComment(script, found.index);
    else if (text === "(") depth += 1;
    else if (text === ")") depth -= 1;
    else if (text === ";" && depth === 0) {
      commands.push(script.slice(start, token.lastIndex));
      start = token.lastIndex;
    }
  }
  const rest = script.slice(start);
  return rest.replaceAll(/--.*/g, "").trim() === "" ? commands : [...commands, rest];
}

/** Comments in comments have ends of their own. */
function endOfComment(script: string, start: number): number {
  const mark = /\/\*|\*\//g;
  mark.lastIndex = start;
  let depth = 0;
  for (let found = mark.exec(script); found !== null; found = mark.exec(script)) {
    depth += found[0] === "/*" ? 1 : -1;
    if (depth === 0) return mark.lastIndex;
  }
  return script.length;
}
