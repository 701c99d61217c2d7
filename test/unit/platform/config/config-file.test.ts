import { expect, test } from "vitest";
import { z } from "zod";
import { loadLimits } from "../../../../services/cli/judge-status.ts";
import { ok, refuse } from "../../../../services/core/result.ts";
import { bySchema, readConfigFile } from "../../../../services/platform/config/config-file.ts";
import { upkeepPolicy } from "../../../../services/platform/config/domain-upkeep-policy.ts";
import { rolePolicy } from "../../../../services/store/database-roles.ts";

test("a file of config/ is read and checked; what is wrong with it is told with its name", () => {
  const raw = (name: string) => readConfigFile(name, (data) => ok(data));
  expect(() => readConfigFile("status.json", () => refuse("no such thing"))).toThrow(
    "config/status.json: no such thing",
  );
  const other = bySchema(z.strictObject({ diskFreePercent: z.string() }));
  expect(() => readConfigFile("status.json", other)).toThrow(/^config\/status\.json: .*diskFreePercent/s);
  expect([loadLimits(), upkeepPolicy, rolePolicy]).toEqual(
    ["status.json", "domain-upkeep.json", "database-roles.json"].map(raw),
  );
});
