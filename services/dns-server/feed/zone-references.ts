/** Slots of an empty table. */
const FIRST_SLOTS = 1 << 10;
/** The table is made anew, twice as large, when more than this part of it is in use. */
const MAX_FILL = 0.7;
/** A slot without a zone: no zone has this id. */
const NONE = -1;

/**
 * References by the ids of zones, a map from numbers to numbers. Of ten million zones a `Map` takes twice the memory and the
 * time. Open addressing, in the order of the ids, which come from a sequence: neighbours lie side by side.
 */
export class ZoneReferences {
  #ids = new Float64Array(FIRST_SLOTS).fill(NONE);
  #references = new Int32Array(FIRST_SLOTS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** 0 for none. */
  get(id: number): number {
    const slot = this.#slotOf(id);
    return this.#ids[slot] === id ? this.#references[slot]! : 0;
  }

  /** @param id not negative */
  set(id: number, reference: number): void {
    let slot = this.#slotOf(id);
    if (this.#ids[slot] !== id) {
      if (this.#size >= this.#ids.length * MAX_FILL) {
        this.#grow();
        slot = this.#slotOf(id);
      }
      this.#ids[slot] = id;
      this.#size += 1;
    }
    this.#references[slot] = reference;
  }

  /** @returns whether it was there */
  delete(id: number): boolean {
    let gap = this.#slotOf(id);
    if (this.#ids[gap] !== id) return false;
    this.#size -= 1;
    const mask = this.#ids.length - 1;
    // What comes behind moves up where it would not be found beyond a gap.
    for (let slot = (gap + 1) & mask; this.#ids[slot] !== NONE; slot = (slot + 1) & mask) {
      if (((slot - this.#homeOf(this.#ids[slot]!)) & mask) < ((slot - gap) & mask)) continue;
      this.#ids[gap] = this.#ids[slot]!;
      this.#references[gap] = this.#references[slot]!;
      gap = slot;
    }
    this.#ids[gap] = NONE;
    return true;
  }

  /** All ids, in no order, as they are now. */
  ids(): Float64Array {
    return this.#ids.filter((id) => id !== NONE);
  }

  /** The slot of an id, or the one that it would have. */
  #slotOf(id: number): number {
    const ids = this.#ids;
    const mask = ids.length - 1;
    let slot = this.#homeOf(id);
    while (ids[slot] !== id && ids[slot] !== NONE) slot = (slot + 1) & mask;
    return slot;
  }

  #homeOf(id: number): number {
    return (id + Math.floor(id / 2 ** 32)) & (this.#ids.length - 1);
  }

  #grow(): void {
    const [ids, references] = [this.#ids, this.#references];
    this.#ids = new Float64Array(2 * ids.length).fill(NONE);
    this.#references = new Int32Array(2 * ids.length);
    for (let index = 0; index < ids.length; index += 1) {
      if (ids[index] === NONE) continue;
      const slot = this.#slotOf(ids[index]!);
      this.#ids[slot] = ids[index]!;
      this.#references[slot] = references[index]!;
    }
  }
}
