import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type BindKey, type BindKeyFiles, parseBindKey } from "../core/dns/dnssec/bind-key-file.ts";
import type { DomainName } from "../core/dns/name.ts";
import { orRefuse, readText } from "./input.ts";
import type { CommandRuntime } from "./runtime.ts";

/**
 * Reads key pairs in BIND's format.
 * @param files one file of each pair, or both, or their name without `.key` and `.private`
 */
export async function readKeyFiles(
  runtime: CommandRuntime,
  apex: DomainName,
  files: readonly string[],
): Promise<BindKey[]> {
  const bases = [...new Set(files.map((file) => resolve(file.replace(/\.(key|private)$/, ""))))];
  const keys: BindKey[] = [];
  for (const base of bases) {
    const [keyText, privateText] = [readText(runtime, `${base}.key`), readText(runtime, `${base}.private`)];
    keys.push(orRefuse(runtime, await parseBindKey(apex, { keyText, privateText })));
  }
  return keys;
}

/** Writes a key pair into a folder; neither file may be there. @returns their paths */
export function writeKeyFiles(
  runtime: CommandRuntime,
  folder: string,
  { name, keyText, privateText }: BindKeyFiles,
): { readonly key: string; readonly private: string } {
  const paths = { key: join(folder, `${name}.key`), private: join(folder, `${name}.private`) };
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(paths.private, privateText, { mode: 0o600, flag: "wx" });
    writeFileSync(paths.key, keyText, { flag: "wx" });
  } catch (error) {
    return runtime.refuse((error as Error).message);
  }
  return paths;
}
