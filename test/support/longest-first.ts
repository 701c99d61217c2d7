import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that wait for long, or work for long: measured, longest first. */
const LONGEST = [
  "system/listeners",
  "system/dns-api-memory",
  "service/dns-api-followers",
  "system/console-shell",
  "system/cluster",
  "system/console-mail",
  "system/mail-faults",
  "system/crash",
  "service/delivery-far-sides",
  "service/dnssec-sequences",
  "system/docs",
  "service/notify",
  "rules/set-up",
  "rules/static",
  "property/dnssec-answers",
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
