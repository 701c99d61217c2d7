import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take 50 s and more: measured, longest first. */
const LONGEST = [
  "service/dns-api-followers",
  "system/console-shell",
  "system/listeners",
  "system/followers-workers",
  "system/docs",
  "system/dns-api-memory",
  "system/story-faults",
  "system/console-dns",
  "service/delivery-far-sides",
  "service/delivery-warm-up",
  "service/full-zone-database",
  "system/crash",
  "system/peers-secondaries",
  "service/dns-updates-acme",
  "service/delivery-replies",
  "system/mail-faults",
];

/** Folders by what most of their files do: keep the processors busy, or wait. Files of all others are short. */
const KINDS = [["system", "rules", "property"], ["service"]];

/**
 * Begins with what takes longest, so that no file runs on alone when the others are done, and has files that work beside
 * files that wait all the time. The shortest come last, and fill the gaps.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((one, other) => lengthRank(one) - lengthRank(other));
    const places = new Map<TestSpecification, number>();
    for (const folders of KINDS) {
      const kind = sorted.filter((file) => isOf(file, folders));
      for (const [index, file] of kind.entries()) places.set(file, index / kind.length);
    }
    const placeOf = (file: TestSpecification) => places.get(file) ?? 1;
    return sorted.sort((one, other) => placeOf(one) - placeOf(other));
  }
}

function isOf({ moduleId }: TestSpecification, folders: readonly string[]): boolean {
  return folders.some((folder) => moduleId.includes(`/test/${folder}/`));
}

function lengthRank({ moduleId }: TestSpecification): number {
  const place = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
  return place >= 0 ? place : LONGEST.length;
}
