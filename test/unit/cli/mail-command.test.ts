import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadConfig } from "../../../services/platform/config/config.ts";
import { operatorOf } from "../../support/operator.ts";
import { makeDataDir, removeDataDir } from "../../support/stack.ts";

const dataDir = makeDataDir();
afterAll(() => removeDataDir(dataDir));

test.each(["", "\r\n \n"])("%j is no message to be judged", async (text) => {
  const file = join(dataDir, "message.eml");
  writeFileSync(file, text);
  const config = loadConfig({ PALOMAR_DATA_DIR: dataDir });
  if (!config.ok) throw new Error(config.error.join());
  const context = { config: config.value } as Parameters<typeof operatorOf>[0];
  const refused = "there is no message: the input is empty";
  expect(await operatorOf(context)("mail", "judge", file)).toMatchObject({ status: 1, refused });
});
