import { readFileSync } from "node:fs";

/** Resident memory of a supervisor and each of its services, in octets, by name; the database has a memory of its own. */
export function residentMemory(supervisor: number): Record<string, number> {
  const services = Object.entries(serviceProcesses(supervisor)).map(
    ([name, id]) => [name, residentOctets(id)] as const,
  );
  return Object.fromEntries([["supervisor", residentOctets(supervisor)], ...services]);
}

/** The processes of a supervisor's services, by name. */
export function serviceProcesses(supervisor: number): Record<string, number> {
  const children = readFileSync(`/proc/${supervisor}/task/${supervisor}/children`, "utf8").trim().split(" ");
  return Object.fromEntries(
    children.flatMap((id) => {
      const [, name] = /service-process\.cjs\0([^\0]+)/.exec(readFileSync(`/proc/${id}/cmdline`, "utf8")) ?? [];
      return name === undefined ? [] : [[name, Number(id)] as const];
    }),
  );
}

function residentOctets(id: number): number {
  const [, kilobytes = "0"] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, "utf8")) ?? [];
  return Number(kilobytes) * 1024;
}
