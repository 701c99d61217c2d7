import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder, programFile, programRunner } from "../../services/platform/package-folder.ts";
import { SERVICE_NAMES, type ServiceName } from "../../services/platform/service.ts";

/** What nobody needs before somebody asks for it: a request elsewhere, a mailbox, a trace, a certificate. */
const LATER =
  /\/node_modules\/(undici|imapflow|mailauth|joi|@zone-eu\/mailsplit|@opentelemetry\/(?!api\/)[\w-]+|acme-client|selfsigned|@peculiar\/[\w-]+)\//;
/** The driver of a database that knex knows and the build leaves out. */
const OTHER_DRIVER = /require\(["'`]tedious["'`]\)/;

/** What the text of a service's files may come to. A process holds it, and reads all of it before it can begin. */
const MOST_OCTETS = 5_200_000;

interface LoadedFile {
  readonly file: string;
  readonly octets: number;
}

function loadAtStart(name: ServiceName): LoadedFile[] {
  return loadedBy([`${name}/main`, "cli/service-process"]);
}

/** @param words what the programs are called with */
function loadedBy(programs: readonly string[], ...words: readonly string[]): LoadedFile[] {
  const script = join(packageFolder, "test", "support", "loaded-files.cjs");
  const args = [script, programRunner, ...programs.map((program) => programFile(program)), "--", ...words];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" }).trim().split("\n").at(-1)!);
}

/** What the build adds by itself has no map. */
const sourcesOf = ({ file }: LoadedFile): string[] =>
  existsSync(`${file}.map`) ? JSON.parse(readFileSync(`${file}.map`, "utf8")).sources : [];

it.each(SERVICE_NAMES)("%s loads at its start what it needs then", (name) => {
  const loaded = loadAtStart(name);
  const sources = loaded.flatMap(sourcesOf);
  // Else nothing would be found for want of looking.
  expect(sources).toContainEqual(expect.stringContaining("/node_modules/knex/"));
  expect(sources.filter((source) => LATER.test(source))).toEqual([]);
  expect(loaded.filter(({ file }) => OTHER_DRIVER.test(readFileSync(file, "utf8")))).toEqual([]);
  expect(loaded.reduce((sum, { octets }) => sum + octets, 0)).toBeLessThan(MOST_OCTETS);
});

/** A call whose value nobody uses is left out of the build where it is known to have no effect but to fail. */
const NOTHING_TRIED = /try \{\s*(?:return (?:true|false|undefined|null);?\s*)?\}\s*catch/;

it.each(SERVICE_NAMES)("%s tries what its source tries", (name) => {
  const emptied = loadAtStart(name).filter(({ file }) => NOTHING_TRIED.test(readFileSync(file, "utf8")));
  expect(emptied).toEqual([]);
});

it.each(SERVICE_NAMES)("%s holds an octet a character of its code", (name) => {
  const beyondLatin1 = loadAtStart(name).filter(({ file }) => /[^\x00-\xff]/.test(readFileSync(file, "utf8")));
  expect(beyondLatin1).toEqual([]);
});

it("palomar loads the code of the command that is called, and of none for its version", () => {
  const commands = (...words: readonly string[]) => {
    const sources = loadedBy(["cli/main"], ...words).flatMap(sourcesOf);
    return sources.flatMap((source) => /\/cli\/commands\/([\w-]+)\.ts$/.exec(source)?.[1] ?? []);
  };
  expect(commands("catalog", "--help")).toContain("catalog");
  expect(commands("catalog", "--help")).not.toContain("contact");
  expect(commands("--version")).toEqual([]);
  expect(commands("-V")).toEqual([]);
});
