import { expect, it } from "vitest";
import { Arena } from "../../../../services/dns-server/zone-database/arena.ts";
import { Epochs } from "../../../../services/dns-server/zone-database/epochs.ts";
import { HEADER } from "../../../../services/dns-server/zone-database/layout.ts";
import { ZoneDatabaseFullError, ZoneDatabaseMemory } from "../../../../services/dns-server/zone-database/memory.ts";

const MIB = 2 ** 20;

it("hands out no block across what a reader may have mapped, however much was free before it", () => {
  const memory = ZoneDatabaseMemory.create(72 * MIB).first;
  const arena = new Arena(memory, new Epochs(memory));
  const blocks: number[] = [];
  const mapped = new Set<number>();
  const across: number[] = [];
  const fill = (octets: number) => {
    try {
      for (;;) {
        mapped.add(memory.octets.length);
        const block = arena.allocate(octets);
        blocks.push(block);
        if ([...mapped].some((end) => block < end && end < block + arena.blockSize(octets))) across.push(block);
      }
    } catch (error) {
      if (!(error instanceof ZoneDatabaseFullError)) throw error;
    }
  };
  fill(MIB);
  expect(mapped.size).toBeGreaterThan(2);
  // From the last one on, so that the end has come to a boundary when what lies before it is joined.
  for (const block of blocks.splice(0).reverse()) if (block > 20 * MIB) arena.freeUnseen(block, MIB);
  while (arena.joinAhead());
  fill(1.5 * MIB);
  expect(blocks.length).toBeGreaterThan(10);
  expect(across).toEqual([]);
});

it("frees blocks in the order in which they were retired, and none that is pinned", () => {
  const memory = ZoneDatabaseMemory.create(8 * MIB).first;
  const epochs = new Epochs(memory);
  const arena = new Arena(memory, epochs);
  // The epochs wrap on the way.
  memory.words[HEADER.EPOCH] = 0x7fffffff - 20;
  epochs.advance();
  const size = arena.blockSize(64);
  const retireOne = () => {
    arena.retire(arena.allocate(64), 64);
    epochs.advance();
    arena.free();
    return arena.waitingOctets / size;
  };
  const retire = (count: number) => Array.from({ length: count }, retireOne);
  expect(retire(3)).toEqual([0, 0, 0]);
  const releaseFirst = epochs.pin();
  expect(retire(30)).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
  const releaseSecond = epochs.pin();
  retire(10);
  releaseFirst();
  arena.free();
  expect(arena.waitingOctets).toBe(10 * size);
  releaseSecond();
  arena.free();
  expect([arena.waitingOctets, arena.usedOctets]).toEqual([0, 0]);
});
