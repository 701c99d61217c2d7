import { LOWER_CASE } from "./layout.ts";

/** The label `*` as the octets of a name. */
const ASTERISK = 0x2a;

/**
 * A name to look up: lower case, uncompressed, with the places of its labels. Made once per thread and filled anew
 * for each query, so that the hot path allocates nothing.
 */
export class LookupName {
  /** Wire form in lower case, with the root octet. */
  readonly octets = new Uint8Array(256);
  /** Offset of each label's length octet in `octets`. */
  readonly labelStarts = new Uint8Array(128);
  labelCount = 0;
  /** Offset of the last octet that was an upper-case letter, −1 for none: what lies behind it came in lower case. */
  lastUpperCase = -1;
  /** Octets in use, the root's included. */
  length = 0;

  /**
   * Fills it from a name on the wire, following compression pointers, which may only point backwards.
   * @returns the offset behind the name; −1 when it is malformed
   * @see RFC 1035 §4.1.4
   */
  read(message: Uint8Array, start: number, end: number): number {
    let position = start;
    let after = -1;
    let lowest = start;
    let length = 0;
    let labels = 0;
    let lastUpperCase = -1;
    const { octets, labelStarts } = this;
    for (;;) {
      if (position >= end) return -1;
      const octet = message[position]!;
      if (octet === 0) break;
      if (octet >= 0xc0) {
        if (position + 1 >= end) return -1;
        const target = ((octet & 0x3f) << 8) | message[position + 1]!;
        if (target >= lowest) return -1;
        if (after < 0) after = position + 2;
        lowest = target;
        position = target;
        continue;
      }
      if (octet > 63 || length + octet + 2 > 255 || position + octet >= end) return -1;
      labelStarts[labels] = length;
      labels += 1;
      octets[length] = octet;
      for (let index = 1; index <= octet; index += 1) {
        const given = message[position + index]!;
        const lower = LOWER_CASE[given]!;
        if (lower !== given) lastUpperCase = length + index;
        octets[length + index] = lower;
      }
      length += octet + 1;
      position += octet + 1;
    }
    octets[length] = 0;
    this.lastUpperCase = lastUpperCase;
    this.length = length + 1;
    this.labelCount = labels;
    return after < 0 ? position + 1 : after;
  }

  /** Fills it from the first `length` octets of an uncompressed name, which end with a label: a name relative to an apex. */
  readRelative(name: Uint8Array, start: number, length: number): void {
    const { octets, labelStarts } = this;
    let labels = 0;
    let nextLabel = 0;
    for (let index = 0; index < length; index += 1) {
      const octet = name[start + index]!;
      if (index === nextLabel) {
        labelStarts[labels++] = index;
        nextLabel += octet + 1;
        octets[index] = octet;
      } else octets[index] = LOWER_CASE[octet]!;
    }
    octets[length] = 0;
    this.length = length + 1;
    this.labelCount = labels;
  }

  /** Becomes the name `*` right below the one that begins at a label of another. */
  readWildcard(other: LookupName, parentLabel: number): void {
    const parent = other.startOf(parentLabel);
    this.octets[0] = 1;
    this.octets[1] = ASTERISK;
    this.labelStarts[0] = 0;
    for (let index = parent; index < other.length; index += 1) this.octets[2 + index - parent] = other.octets[index]!;
    for (let label = parentLabel; label < other.labelCount; label += 1) {
      this.labelStarts[1 + label - parentLabel] = 2 + other.labelStarts[label]! - parent;
    }
    this.labelCount = 1 + other.labelCount - parentLabel;
    this.length = 2 + other.length - parent;
  }

  /** Whether the two are the same name. */
  equals(other: LookupName): boolean {
    if (other.length !== this.length) return false;
    for (let index = 0; index < this.length; index += 1) {
      if (other.octets[index] !== this.octets[index]) return false;
    }
    return true;
  }

  /** Whether it is at or below the name that begins at a label of another. */
  isAtOrBelow(other: LookupName, otherLabel: number): boolean {
    const otherStart = other.startOf(otherLabel);
    const start = this.length - (other.length - otherStart);
    let label = 0;
    while (label < this.labelCount && this.labelStarts[label]! < start) label += 1;
    if (this.startOf(label) !== start) return false;
    for (let index = start; index < this.length; index += 1) {
      if (this.octets[index] !== other.octets[otherStart + index - start]) return false;
    }
    return true;
  }

  /** Whether the label is a lone asterisk (RFC 4592 §2.1.1). */
  isAsterisk(label: number): boolean {
    const start = this.labelStarts[label]!;
    return this.octets[start] === 1 && this.octets[start + 1] === ASTERISK;
  }

  /** Offset of a label's length octet; of the root's octet for the label count itself. */
  startOf(label: number): number {
    return label === this.labelCount ? this.length - 1 : this.labelStarts[label]!;
  }
}
