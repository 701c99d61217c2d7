import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Clock ticks in a second, as /proc counts them on every Linux that Node runs on. */
const TICKS_A_SECOND = 100;

/** CPU time in seconds that a process has had; undefined where there is no /proc. */
export function cpuSeconds(pid: number): number | undefined {
  const process = readTicks(pid);
  return process && (threadSeconds(pid) ?? process.ticks / TICKS_A_SECOND);
}

/** Whether the kernel counts the time of each thread, to the nanosecond. */
const COUNTS_THREADS = existsSync("/proc/self/schedstat");

/** The time that the threads of a process have had, but for those that ended. */
function threadSeconds(pid: number): number | undefined {
  if (!COUNTS_THREADS) return undefined;
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) => {
    try {
      return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    } catch {
      return 0;
    }
  });
  return threads.reduce((sum, own) => sum + own, 0) / 1e9;
}

/** CPU time in seconds that a process and its children have had, those that it has seen end included. */
export function cpuSecondsWithChildren(pid: number): number | undefined {
  const children = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && readTicks(Number(name))?.parent === pid);
  const own = readTicks(pid);
  const seen = own && cpuSeconds(pid)! + own.ofEndedChildren / TICKS_A_SECOND;
  return seen && children.reduce((seconds, child) => seconds + (cpuSeconds(Number(child)) ?? 0), seen);
}

/**
 * proc_pid_stat(5): the parent is field 4, user and system time are 14 and 15, those of ended children 16 and 17; the
 * name before may hold anything.
 */
function readTicks(
  pid: number,
): { readonly parent: number; readonly ticks: number; readonly ofEndedChildren: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const sum = (first: number) => Number(fields[first]) + Number(fields[first + 1]);
    return { parent: Number(fields[1]), ticks: sum(11), ofEndedChildren: sum(13) };
  } catch {
    return undefined;
  }
}
