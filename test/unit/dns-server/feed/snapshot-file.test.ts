import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import { afterEach, beforeEach, expect, it } from "vitest";
import { SnapshotReader, SnapshotWriter } from "../../../../services/dns-server/feed/snapshot-file.ts";
import { type SnapshotZone, ZoneStreamReader } from "../../../../services/dns-server/feed/zone-stream.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-snapshot-"));
  file = join(folder, "zones.snapshot");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const HEAD = { confirmedAtMs: 1_790_000_000_123, life: "first life", access: undefined, suspended: [] };

/** A zone with all parts of its image at hand. */
type KeptZone = SnapshotZone & { readonly parts: readonly Int32Array[] };

/** A device on which there is no room. */
const FULL = "/dev/full";

/** What a file says that its images have. */
const NODES = 123_456_789;

/** Zones that take more than one chunk of the file. */
const ZONES: readonly KeptZone[] = Array.from({ length: 40 }, (_, index) => ({
  id: 2 ** 40 + index,
  version: index,
  restricted: index % 2 === 1,
  resellerId: index % 3 === 0 ? null : `reseller-${index}`,
  apex: Uint8Array.of(1, 97 + (index % 26), 0),
  negativeTtlSeconds: 300 + index,
  expireSeconds: 2 ** 32 - 1 - index,
  octets: 2 ** 31 - index,
  parts: Array.from({ length: index % 5 }, (_none, part) => new Int32Array(65_535 - part).fill(index)),
}));

async function write(zones: readonly KeptZone[] = ZONES): Promise<void> {
  const writer = new SnapshotWriter(file, HEAD);
  for (const zone of zones) addZone(writer, zone);
  await writer.finish(NODES);
}

function addZone(writer: SnapshotWriter, zone: KeptZone): void {
  writer.beginZone(zone);
  for (const part of zone.parts) writer.addPart(part);
  writer.endZone();
}

/** Short, so that a difference can be read. */
function summary({ parts, ...zone }: KeptZone) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part.length} `).update(part);
  return { ...zone, digest: hash.digest("hex") };
}

async function read() {
  const reader = await SnapshotReader.open(file);
  const stream = new ZoneStreamReader();
  const zones: (SnapshotZone & { readonly parts: Int32Array[] })[] = [];
  try {
    for await (const chunk of reader.chunks()) {
      stream.begin(chunk);
      while (!stream.isEmpty) {
        if (!stream.isInZone) zones.push({ ...stream.nextZone(), parts: [] });
        const part = stream.isEmpty ? undefined : stream.nextPart();
        if (part) zones.at(-1)!.parts.push(part.words.slice(part.start, part.end));
      }
    }
  } finally {
    await reader.close();
  }
  return { head: reader.head, size: reader.size, zones };
}

it("gives back what was written", async () => {
  await write();
  const { head, size, zones } = await read();
  expect(head).toEqual(HEAD);
  expect(size).toEqual({ octets: statSync(file).size, zones: ZONES.length, nodes: NODES });
  expect(zones.map(summary)).toEqual(ZONES.map(summary));
});

it("keeps which zones are suspended", async () => {
  const suspended = [
    { id: 2 ** 40, apex: Buffer.from("\x01a\0"), resellerId: "reseller" },
    { id: 7, apex: Buffer.from("\x01\xff\0", "latin1"), resellerId: null },
  ];
  await new SnapshotWriter(file, { ...HEAD, suspended }).finish(0);
  expect((await read()).head).toEqual({ ...HEAD, suspended });
});

it("keeps who may transfer, however long the list is", async () => {
  const access = "x".repeat(3 << 20);
  const writer = new SnapshotWriter(file, { ...HEAD, access });
  addZone(writer, ZONES[1]!);
  await writer.finish(NODES);
  const { head, zones } = await read();
  expect(head).toEqual({ ...HEAD, access });
  expect(zones.map(summary)).toEqual([summary(ZONES[1]!)]);
});

it.each([
  ["is no snapshot", "PALOMAR BONES\n\0\0\0\x07\x04\x03\x02\x01\0\0"],
  ["has format 6, and this version reads format 7", "PALOMAR ZONES\n\0\0\0\x06\0\0\0\0\0\0"],
  ["has format 8, and this version reads format 7", "PALOMAR ZONES\n\0\0\0\x08\0\0\0\0\0\0"],
  ["is of a machine of another kind", "PALOMAR ZONES\n\0\0\0\x07\x01\x02\x03\x04\0\0"],
])("takes nothing of a file that %s, and says so", async (why, head) => {
  writeFileSync(file, Buffer.concat([Buffer.from(head, "latin1"), Buffer.alloc(100)]));
  await expect(read()).rejects.toThrow(why);
});

it("gives chunks of which none is much larger than a part", async () => {
  await write();
  const reader = await SnapshotReader.open(file);
  const lengths: number[] = [];
  for await (const chunk of reader.chunks()) lengths.push(chunk.length);
  await reader.close();
  expect(lengths.length).toBeGreaterThan(10);
  expect(Math.max(...lengths)).toBeLessThanOrEqual(2 ** 18);
});

it("is whole or not at all: a draft that is given up leaves the file before", async () => {
  await write([]);
  const writer = new SnapshotWriter(file, HEAD);
  for (const zone of ZONES) addZone(writer, zone);
  writer.discard();
  expect((await read()).zones).toEqual([]);
  expect(existsSync(`${file}.new`)).toBe(false);
});

it.skipIf(!existsSync(FULL))("holds no file open where the disk has no room for its beginning", () => {
  symlinkSync(FULL, `${file}.new`);
  // With nothing else under way here, the lowest number is the next one's.
  const next = () => {
    const descriptor = openSync(folder, "r");
    closeSync(descriptor);
    return descriptor;
  };
  const before = next();
  expect(() => new SnapshotWriter(file, HEAD)).toThrow(/ENOSPC/);
  expect(next()).toBe(before);
  expect(existsSync(`${file}.new`)).toBe(false);
});

it("gives up a draft that cannot be put in its place, and closes nobody else's file", async () => {
  mkdirSync(file);
  const writer = new SnapshotWriter(file, HEAD);
  await expect(writer.finish(NODES)).rejects.toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
  // It gets the number that the draft had.
  const other = openSync(join(folder, "other"), "w");
  writer.discard();
  closeSync(other);
  expect(existsSync(`${file}.new`)).toBe(false);
});

it("believes nothing of a file with one bit changed, wherever it is", async () => {
  await write(ZONES.slice(0, 2));
  const octets = readFileSync(file);
  for (let position = 0; position < octets.length; position += 4_099) {
    const changed = Buffer.from(octets);
    changed[position]! ^= 1;
    writeFileSync(file, changed);
    await expect(read()).rejects.toThrow(/is damaged|is no snapshot|has format|of a machine of another kind/);
  }
});

it.each([0, 5, 23, 24, 31, 67, 68, 100, 2 ** 20, -1, -36])("believes nothing of a file cut off at %d", async (at) => {
  await write();
  truncateSync(file, at < 0 ? statSync(file).size + at : at);
  await expect(read()).rejects.toThrow(/is damaged|is no snapshot/);
});

it("can be closed while chunks are still to come", async () => {
  await write();
  const reader = await SnapshotReader.open(file);
  for await (const _chunk of reader.chunks()) break;
  await reader.close();
});

it("says that there is none", async () => {
  await expect(read()).rejects.toThrow(/ENOENT/);
});

it("is the last whole one when its writer is killed, however far it was with the next", async () => {
  // The writer as it is, in a process of its own: one file after another, each of zones of its own version.
  const input = fileURLToPath(new URL("../../../../services/dns-server/feed/snapshot-file.ts", import.meta.url));
  await build({ input, platform: "node", output: { file: join(folder, "snapshot-file.mjs") } });
  const program = `
    import { SnapshotWriter } from "./snapshot-file.mjs";
    for (let version = 1; ; version += 1) {
      const writer = new SnapshotWriter(${JSON.stringify(file)}, ${JSON.stringify(HEAD)});
      for (let id = 1; id <= 40; id += 1) {
        writer.beginZone({ id, version, restricted: false, resellerId: null, apex: Uint8Array.of(0), negativeTtlSeconds: 1, expireSeconds: 1, octets: 1 });
        writer.addPart(new Int32Array(16_384).fill(version));
        writer.endZone();
      }
      await writer.finish(version);
      console.log(version);
    }
  `;
  writeFileSync(join(folder, "write.mjs"), program);
  for (let round = 0; round < 5; round += 1) {
    const child = spawn(process.execPath, [join(folder, "write.mjs")], { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    await sleep(7 * round);
    child.kill("SIGKILL");
    await once(child, "exit");
    const { size, zones } = await read();
    expect(zones).toHaveLength(40);
    for (const { version, parts } of zones)
      expect([version, parts[0]![0], parts[0]!.at(-1)]).toEqual(Array(3).fill(size.nodes));
  }
});
