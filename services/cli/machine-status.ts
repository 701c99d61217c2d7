import { X509Certificate } from "node:crypto";
import { readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../platform/config/config.ts";

/** What the machine that is asked has for its services. */
export interface MachineStatus {
  /**
   * Of the disk that the data folder is on, what an ordinary user may still fill, and of that of the embedded database where it
   * is less; null where nobody can tell.
   */
  readonly diskFreePercent: number | null;
  /** That of PALOMAR_TLS_CERT; null where there is none. Below 0 it has ended. */
  readonly certificate: { readonly endsInDays?: number; readonly problem?: string } | null;
}

const DAY_MS = 86_400_000;

export async function inspectMachine({ dataDir, tls }: Config, now: Date): Promise<MachineStatus> {
  const disks = await Promise.all([freePercent(dataDir), freePercent(join(dataDir, "postgres"))]);
  const known = disks.filter((percent) => percent !== null);
  return {
    diskFreePercent: known.length > 0 ? Math.min(...known) : null,
    certificate: tls && (await inspectCertificate(tls.certPath, now)),
  };
}

/** A folder that is not there yet has no disk. */
async function freePercent(folder: string): Promise<number | null> {
  try {
    const { bavail, blocks } = await statfs(folder);
    return blocks === 0 ? null : Math.floor((bavail * 100) / blocks);
  } catch {
    return null;
  }
}

async function inspectCertificate(file: string, now: Date): Promise<MachineStatus["certificate"]> {
  try {
    const { validTo } = new X509Certificate(await readFile(file));
    return { endsInDays: Math.floor((new Date(validTo).getTime() - now.getTime()) / DAY_MS) };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
