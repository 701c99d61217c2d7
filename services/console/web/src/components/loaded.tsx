import type { ComponentChildren } from "preact";
import type { Fetched } from "../fetched.ts";
import { ProblemNote } from "./problem.tsx";
import { Skeleton } from "./table.tsx";

interface LoadedProps<T> {
  readonly of: Fetched<T>;
  readonly children: (value: T) => ComponentChildren;
}

/** Draws what was asked for, once it is there; until then that it comes, or why it does not. */
export function Loaded<T>({ of: { value, problem, reload }, children }: LoadedProps<T>) {
  if (value === undefined) return problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton />;
  return (
    <>
      <ProblemNote problem={problem} retry={reload} />
      {children(value)}
    </>
  );
}
