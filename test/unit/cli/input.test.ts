import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandRefused } from "../../../services/cli/command-errors.ts";
import { readAddresses } from "../../../services/cli/data-folder.ts";
import { readText } from "../../../services/cli/input.ts";
import type { CommandRuntime } from "../../../services/cli/runtime.ts";

const dataDir = mkdtempSync(join(tmpdir(), "palomar-input-"));
afterAll(() => rmSync(dataDir, { recursive: true }));

const runtime = {
  refuse: (text: string) => {
    throw new CommandRefused(text);
  },
} as CommandRuntime;

test("a text file is UTF-8, or refused by its name", () => {
  const file = join(dataDir, "text");
  writeFileSync(file, "contraseña\n");
  expect(readText(runtime, file)).toBe("contraseña\n");
  writeFileSync(file, "contraseña\n", "latin1");
  expect(() => readText(runtime, file)).toThrow(`${file}: `);
  expect(() => readText(runtime, join(dataDir, "none"))).toThrow(CommandRefused);
});

test("the addresses of a stack are those that it wrote; where none did there are none", () => {
  expect(readAddresses({ dataDir })).toBeUndefined();
  writeFileSync(join(dataDir, "addresses.json"), '{"dns":"127.0.0.1:5300","metrics":null}');
  expect(readAddresses({ dataDir })).toEqual({ dns: "127.0.0.1:5300", metrics: null });
});
