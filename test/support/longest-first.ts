import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that wait for long, or work for long, each for 50 s and more: measured, longest first. */
const LONGEST = [
  "system/dns-api-memory",
  "system/mail-faults",
  "service/dns-api-followers",
  "system/docs",
  "system/console-mail",
  "system/listeners",
  "system/cluster",
  "system/console-shell",
  "system/followers-workers",
  "system/rotation-crash",
  "system/console-dns",
  "system/story-faults",
  "property/full-zone-database",
  "service/dns-updates-peers",
  "system/full-zone-database",
  "system/crash",
  "system/peers-secondaries",
  "system/backup",
  "system/console-operator",
  "service/full-zone-database",
  "service/dnssec-sequences",
  "service/delivery-far-sides",
  "rules/static",
  "rules/deploy",
  "rules/set-up",
];
/** The others' folders; the shortest come last, and fill the gaps. */
const FOLDERS = ["system", "service", "rules", "property", "golden", "unit"];

/** Begins with what takes longest, so that no file runs on alone when the others are done. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((one, other) => rankOf(one) - rankOf(other));
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const place = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
  return place >= 0 ? place : LONGEST.length + FOLDERS.findIndex((folder) => moduleId.includes(`/test/${folder}/`));
}
