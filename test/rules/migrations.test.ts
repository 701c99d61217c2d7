import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

/**
 * A database that has a migration refuses a release in which that file reads otherwise, be it by a comment. A new file
 * gets its line by `(cd migrations && sha256sum *.sql) > test/golden/migrations.txt`.
 */
it("migrations stay as they were when they were first applied", () => {
  const folder = join(packageFolder, "migrations");
  const now = readdirSync(folder)
    .sort()
    .map(
      (file) =>
        `${createHash("sha256")
          .update(readFileSync(join(folder, file)))
          .digest("hex")}  ${file}`,
    );
  const golden = readFileSync(join(packageFolder, "test/golden/migrations.txt"), "utf8");
  expect(now).toEqual(golden.trimEnd().split("\n"));
});
