import type { IndexDraft } from "./zone-index.ts";

/** A name of the node table that a change gives another node, or none. */
export interface ChangedName {
  readonly hash: number;
  /** The `CHANGE` in the table. */
  readonly entry: number;
  readonly version: number;
  /** The `CHANGE` that a later change has put in its place. */
  successor: number;
}

/** What has been done to a zone since readers have last been shown it; all of it becomes visible by one store. */
export interface ZoneChange extends IndexDraft {
  readonly zone: number;
  /** Whether readers see an earlier version of the zone. */
  readonly isVisible: boolean;
  /** Octets of the zone's nodes before. */
  readonly octetsBefore: number;
  /** The apex's node to be. */
  apex: number;
  /** Whether empty non-terminals have been made. */
  hasAncestors: boolean;
  readonly names: ChangedName[];
  /** Nodes that come into the zone's list, and that go out of it, when the change is published. */
  readonly added: Set<number>;
  readonly removed: Set<number>;
  /** Nodes of the version before whose children were counted anew, each with the difference. */
  readonly counted: (readonly [node: number, difference: number])[];
}

/**
 * What is not published yet, by zone. A load makes, fills and publishes one zone after another, millions of them: the one that
 * was begun last stands beside the table.
 */
export class PendingChanges {
  #last: ZoneChange | undefined;
  readonly #others = new Map<number, ZoneChange>();

  get(zone: number): ZoneChange | undefined {
    return this.#last?.zone === zone ? this.#last : this.#others.get(zone);
  }

  /** Adds the change of a zone that has none. */
  add(change: ZoneChange): void {
    if (this.#last !== undefined) this.#others.set(this.#last.zone, this.#last);
    this.#last = change;
  }

  delete(zone: number): void {
    if (this.#last?.zone === zone) this.#last = undefined;
    else this.#others.delete(zone);
  }
}

/** A published change whose former nodes may still be looked at by readers that entered up to an epoch. */
export interface UnsettledChange {
  readonly change: ZoneChange;
  readonly epoch: number;
}
