import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

const run = promisify(execFile);

/** @returns what the tool printed when it found something, else nothing */
async function complaintsOf(tool: string, ...options: string[]): Promise<string> {
  const program = join(packageFolder, "node_modules", ...tool.split("/"));
  return run(process.execPath, [program, ...options], { cwd: packageFolder, maxBuffer: 2 ** 26 }).then(
    () => "",
    ({ stdout, stderr }) => `${stdout}${stderr}`,
  );
}

it.each(["tsconfig.json", "services/console/web/tsconfig.json"])(
  "all that %s covers type-checks, tests included",
  async (project) => {
    // Several checkers at once check what they share once each.
    expect(await complaintsOf("typescript/bin/tsc", "-p", project, "--noEmit", "--singleThreaded")).toBe("");
  },
  600_000,
);

it("the linter and the formatter find nothing", async () => {
  expect(await complaintsOf("@biomejs/biome/bin/biome", "check", ".")).toBe("");
}, 600_000);
