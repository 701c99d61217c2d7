import { createHmac } from "node:crypto";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type pg from "pg";
import { to } from "pg-copy-streams";
import { FRAME_HEAD_OCTETS, PREAMBLE_OCTETS, TAG_OCTETS } from "../../services/core/backup-format.ts";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { migrateTo } from "../../services/platform/postgres/migrations.ts";
import { restoreBackup, writeBackup } from "../../services/store/backup.ts";
import { listEventMonths, readCatalogue, readSequences } from "../../services/store/backup-catalogue.ts";
import { openBackup } from "../../services/store/backup-content.ts";

/** A backup as its file's octets. */
export async function backUp(db: Db, keyRing: KeyRing): Promise<Buffer> {
  const out = new PassThrough();
  const [octets] = await Promise.all([buffer(out), writeBackup(db, out, { version: "1", keyRing, now: new Date() })]);
  return octets;
}

/** As from standard input, in pieces of so many octets. */
export function streamOf(octets: Buffer, pieceOctets = 10_000): Readable {
  const pieces = Array.from({ length: Math.ceil(octets.length / pieceOctets) }, (_, index) =>
    octets.subarray(index * pieceOctets, (index + 1) * pieceOctets),
  );
  return Readable.from(pieces);
}

export async function restoreFrom(db: Db, octets: Buffer, keyRing: KeyRing, trustUnauthenticated = false) {
  return restoreBackup(db, await openBackup(streamOf(octets), { keyRing, trustUnauthenticated }), { migrateTo });
}

/** A backup cut into its preamble and its frames, to be put together in other ways. */
export function cutFrames(octets: Buffer): { readonly preamble: Buffer; readonly frames: readonly Buffer[] } {
  const frames: Buffer[] = [];
  for (let start = PREAMBLE_OCTETS; start < octets.length; ) {
    const end = start + FRAME_HEAD_OCTETS + octets.readUInt32BE(start + 1) + TAG_OCTETS;
    frames.push(octets.subarray(start, end));
    start = end;
  }
  return { preamble: octets.subarray(0, PREAMBLE_OCTETS), frames };
}

/** What a backup of the former format is gzip of, as releases before the authenticated one wrote it. */
export async function formerBackupText(db: Db, keyRing: KeyRing): Promise<string> {
  const mark = createHmac("sha256", keyRing.keyFor("backup")).update("Palomar backup").digest().subarray(0, 8);
  const migrations = await queryRows<{ name: string }>(db, "select name from schema_migrations order by 1");
  const head = {
    palomar: "0",
    takenAt: new Date().toISOString(),
    migrations: migrations.map(({ name }) => name),
    secretMark: mark.toString("hex"),
    eventMonths: await listEventMonths(db),
  };
  let text = `-- Palomar backup: ${JSON.stringify(head)}\n`;
  const counts: Record<string, number> = {};
  const client: pg.Client = await db.client.acquireConnection();
  try {
    for (const { name, columns } of (await readCatalogue(db)).tables) {
      const list = columns.map((column) =>
        /^(?:user|limit|position|from|to|groups)$/.test(column) ? `"${column}"` : column,
      );
      const stream = client.query(
        to(`copy (select ${columns.map((column) => `"${column}"`)} from "${name}") to stdout`),
      );
      text += `COPY ${name} (${list.join(", ")}) FROM stdin;\n${(await buffer(stream)).toString()}\\.\n`;
      counts[name] = stream.rowCount;
    }
  } finally {
    await db.client.releaseConnection(client);
  }
  for (const [name, value] of Object.entries(await readSequences(db))) {
    if (value !== null) text += `SELECT pg_catalog.setval('${name}', ${value}, true);\n`;
  }
  return `${text}-- Palomar backup ends: ${JSON.stringify(counts)}\n`;
}
