import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ok, type Result, refuse } from "../../core/result.ts";
import { packageFolder } from "../package-folder.ts";

/**
 * The content of a file of `config/`.
 * @param name such as `retry.json`
 * @param read checks it; refused with a sentence
 * @throws Error with the file's name and what is wrong with it
 */
export function readConfigFile<T>(name: string, read: (data: unknown) => Result<T, string>): T {
  const content = read(parse(name, readFileSync(join(packageFolder, "config", name), "utf8")));
  if (!content.ok) throw new Error(`config/${name}: ${content.error}`);
  return content.value;
}

function parse(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`config/${name}: ${(error as Error).message}`);
  }
}

/** Checks what a file says by a schema. */
export function bySchema<Schema extends z.ZodType>(schema: Schema) {
  return (data: unknown): Result<z.output<Schema>, string> => {
    const parsed = schema.safeParse(data);
    return parsed.success ? ok(parsed.data) : refuse(z.prettifyError(parsed.error));
  };
}
