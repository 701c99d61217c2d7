import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { OWN_ENVIRONMENT } from "../support/stack.ts";

const FOLDER = join(packageFolder, "docs", "howto");

/** Calls a command of the clone as its README says, from another folder than its top. */
function palomar(...words: string[]) {
  const env = { ...OWN_ENVIRONMENT, PALOMAR_DATA_DIR: "./no-such-folder" };
  return spawnSync("npm", ["run", "-s", "palomar", "--", ...words], { cwd: FOLDER, env, encoding: "utf8" });
}

test("files that a command names are the caller's, and the data folder is the clone's", () => {
  const read = palomar("bounce", "classify", "go-live-with-mail.md");
  expect(read).toMatchObject({ status: 0, stderr: "" });
  expect(JSON.parse(read.stdout)).toMatchObject({ file: "go-live-with-mail.md" });
  const asked = palomar("status");
  expect(asked.stdout).toContain(
    `there is no database in the data folder ${join(packageFolder, "no-such-folder")} (PALOMAR_DATA_DIR)`,
  );
});
