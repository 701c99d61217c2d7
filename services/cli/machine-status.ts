import { X509Certificate } from "node:crypto";
import { readFileSync, statfsSync } from "node:fs";
import type { Config } from "../platform/config/config.ts";

/** What the machine that is asked has for its services. */
export interface MachineStatus {
  /** Of the disk that the data folder is on, what an ordinary user may still fill; null where nobody can tell. */
  readonly diskFreePercent: number | null;
  /** That of PALOMAR_TLS_CERT; null where there is none. Below 0 it has ended. */
  readonly certificate: { readonly endsInDays?: number; readonly problem?: string } | null;
}

const DAY_MS = 86_400_000;

export function inspectMachine({ dataDir, tls }: Config, now: Date): MachineStatus {
  return { diskFreePercent: freePercent(dataDir), certificate: tls && inspectCertificate(tls.certPath, now) };
}

/** A folder that is not there yet has no disk. */
function freePercent(folder: string): number | null {
  try {
    const { bavail, blocks } = statfsSync(folder);
    return blocks === 0 ? null : Math.floor((bavail * 100) / blocks);
  } catch {
    return null;
  }
}

function inspectCertificate(file: string, now: Date): MachineStatus["certificate"] {
  try {
    const { validTo } = new X509Certificate(readFileSync(file));
    return { endsInDays: Math.floor((new Date(validTo).getTime() - now.getTime()) / DAY_MS) };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
