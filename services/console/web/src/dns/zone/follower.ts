import type { Sentence } from "../../../../../core/sentences.ts";

/** A name that has the addresses of another, as the DNS API shows it. */
export interface Alias {
  readonly alias_id: number;
  readonly name: string;
  readonly target: string;
  readonly ttl: number;
  readonly a: readonly string[];
  readonly aaaa: readonly string[];
  readonly problem: Sentence | null;
}

/** A name that has the addresses of those members that are well. */
export interface Pool {
  readonly pool_id: number;
  readonly name: string;
  readonly rule: "all" | "priority" | "weighted";
  readonly a: readonly string[];
  readonly aaaa: readonly string[];
  readonly problem: Sentence | null;
  readonly members: readonly PoolMember[];
  /** How members are looked at; fields beside these depend on the type. */
  readonly check: PoolCheck | null;
}

export interface PoolCheck {
  readonly type: "tcp" | "http" | "https" | "smtp" | "dns";
  readonly port: number;
  /** In seconds. */
  readonly interval: number;
  readonly path?: string;
  readonly question?: string;
}

export interface PoolMember {
  readonly name: string;
  readonly value: string;
  readonly weight: number;
  readonly priority: number;
  readonly drain: boolean;
}

/** What a node says of an address. */
export interface Verdict {
  readonly node: string;
  readonly up: boolean;
  readonly since: string;
  readonly reason: Sentence | null;
}

/** A pool with what the nodes say of it. */
export interface PoolState extends Pool {
  readonly nodes: readonly string[];
  readonly states: readonly {
    readonly member: string;
    readonly address: string;
    readonly up: boolean;
    readonly since: string;
    /** Before that nothing is known of it. */
    readonly checked_since: string;
    readonly verdicts: readonly Verdict[];
  }[];
  readonly history: readonly PoolEvent[];
}

export interface PoolEvent {
  readonly at: string;
  readonly member: string;
  readonly address: string;
  readonly up: boolean;
}
