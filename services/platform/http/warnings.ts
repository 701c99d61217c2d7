import { z } from "zod";

/** Doubtful but lawful data, in words; absent when there is nothing to say. */
export const warnings = z.array(z.string()).optional();

/** Warnings as an answer carries them: not at all when there are none. */
export function withWarnings(found: readonly string[]): { warnings?: string[] } {
  return found.length > 0 ? { warnings: [...found] } : {};
}
