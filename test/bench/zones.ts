/**
 * The benchmark of many zones: `npm run bench:zones [-- 10000 100000 1000000] [--going 10000] [--keep folder [--lay-out]]`.
 *
 * Zones of eight records in a PostgreSQL of its own, size after size, so that growth shows: what a start takes, from the
 * database and from the snapshot; memory; changes, lists and searches by the APIs; a catalog of all zones; NOTIFY of as many
 * zones as `--going` says; the deletion of their reseller. With `--lay-out` the databases are filled in a folder that stays,
 * for a later run that measures them, once: to fill a large one takes minutes, which need not be quiet ones. A column
 * beside each size has the ratio to the size before. The last line is JSON, for a history.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { print } from "./dns-report.ts";
import { isLaidOut, layOutZones } from "./zones-data.ts";
import { type Figures, measureSize } from "./zones-measures.ts";
import { SECRET } from "./zones-services.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { going: { type: "string", default: "10000" }, keep: { type: "string" }, "lay-out": { type: "boolean" } },
});
const going = Number(values.going);
const sizes = positionals.length === 0 ? [10_000, 100_000, 1_000_000] : positionals.map(Number);

const measured: { readonly zones: number; readonly figures: Figures }[] = [];
for (const zones of sizes) {
  const figures = await runSize(zones);
  if (!figures) continue;
  measured.push({ zones, figures });
  printTable();
}
print(JSON.stringify({ going, sizes: measured }));

async function runSize(zones: number): Promise<Figures | undefined> {
  const folder =
    values.keep === undefined ? mkdtempSync(join(tmpdir(), "palomar-bench-")) : join(values.keep, `${zones}`);
  const own = join(folder, "services");
  mkdirSync(own, { recursive: true });
  const postgres = await openEmbeddedPostgres({
    dataDir: join(folder, "postgres"),
    logger: makeLogger("bench", "warn"),
  });
  const db = openDb(postgres.url, { connections: 4, name: "bench" });
  try {
    await migrate(db);
    const keyRing = KeyRing.ofSecret(SECRET);
    if (!(await isLaidOut(db))) {
      const startedAt = performance.now();
      await layOutZones(db, keyRing, zones, going);
      print(`${zones} zones are laid out after ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
    }
    if (values["lay-out"]) return undefined;
    return await measureSize({ db, keyRing, zones, going, databaseUrl: postgres.url, folder: own });
  } finally {
    await db.destroy();
    await postgres.release();
    if (!values["lay-out"]) rmSync(folder, { recursive: true, force: true });
  }
}

/** A row for each figure, a column for each size and for its ratio to the one before. */
function printTable(): void {
  const names = [...new Set(measured.flatMap(({ figures }) => Object.keys(figures)))];
  const heads = measured.flatMap(({ zones }, index) => (index === 0 ? [`${zones}`] : [`${zones}`, "ratio"]));
  print(`\n| zones | ${heads.join(" | ")} |\n|---|${heads.map(() => "---|").join("")}`);
  for (const name of names) {
    const cells = measured.flatMap(({ figures }, index) => {
      const figure = figures[name] ?? Number.NaN;
      const before = measured[index - 1]?.figures[name];
      return before === undefined ? [shown(figure)] : [shown(figure), (figure / before).toFixed(2)];
    });
    print(`| ${name} | ${cells.join(" | ")} |`);
  }
  print("");
}

function shown(figure: number): string {
  return figure >= 100 ? figure.toFixed(0) : figure.toPrecision(3);
}
