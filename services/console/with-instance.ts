import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import type { Instance } from "../store/mail/instances/instances.ts";
import { type AdminCaller, visibleInstance } from "./caller.ts";
import type { ConsoleContext } from "./context.ts";

/** Acts on the instance of a path; refuses, as for one that there is not, when it is not the caller's to see. */
export async function withInstance<T>(
  { db }: ConsoleContext,
  caller: AdminCaller,
  name: string,
  act: (instance: Instance) => Promise<Result<T, Refusal>>,
): Promise<Result<T, Refusal>> {
  const instance = await visibleInstance(db, caller, name);
  return instance.ok ? act(instance.value) : instance;
}
