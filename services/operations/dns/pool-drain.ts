import type { PoolDefinition } from "../../core/dns/follow/follower.ts";
import { type FollowerEdits, NO_FOLLOWER_EDITS } from "../../core/dns/follow/follower-edits.ts";
import { NO_RECORD_EDITS } from "../../core/dns/zone-edit.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { ZoneChanged, ZoneTarget } from "./zone-changes.ts";
import { changeRecords } from "./zone-records.ts";

/** A member of a pool that is to be given to nobody, or to be given again. */
export interface MemberToDrain {
  readonly poolId: number;
  readonly member: string;
  readonly drain: boolean;
}

/** Drains a member of a pool, or gives it again, as a change of the zone. */
export function drainMember(
  db: Db,
  target: ZoneTarget,
  { poolId, member, drain }: MemberToDrain,
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  const modification: FollowerEdits["modifications"][number] = {
    kind: "pool",
    id: poolId,
    change: ({ owner, definition }) => {
      const { members, ...pool } = definition as PoolDefinition;
      if (!members.some(({ name }) => name === member)) return refuse(unacceptable("pool-member-unknown", { member }));
      const changed = members.map((one) => (one.name === member ? { ...one, drain } : one));
      return ok({ owner, kind: "pool", definition: { ...pool, members: changed } });
    },
  };
  const followers = { ...NO_FOLLOWER_EDITS, modifications: [modification] };
  return changeRecords(db, target, { ...NO_RECORD_EDITS, followers }, now);
}
