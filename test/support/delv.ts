import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * What `delv`, BIND's own validating look-up tool, has to say of an answer.
 * @param anchor what stands for the zone in `trust-anchors`, such as `static-ds 12345 13 2 "…"`
 * @param server the authoritative server, host:port
 */
export async function delv(
  { zone, anchor }: { readonly zone: string; readonly anchor: string },
  server: string,
  name: string,
  type: string,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-delv-"));
  const file = join(folder, "anchor.conf");
  writeFileSync(file, `trust-anchors { ${zone} ${anchor}; };\n`);
  const [host, port] = server.split(":") as [string, string];
  try {
    const args = ["-a", file, `+root=${zone}`, `@${host}`, "-p", port, name, type];
    const { stdout, stderr } = await promisify(execFile)("delv", args);
    return stdout + stderr;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
