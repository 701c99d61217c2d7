import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import type { Wrapper } from "./deployment.ts";

/** Why machines cannot be played here; undefined where they can. */
export const whyNoNetwork: string | undefined = findObstacle();

/** A network of machines, each in a network namespace of its own, all on one bridge of this machine. */
export interface Network {
  /** This machine's address on it. */
  readonly own: string;
  readonly machine: (number: number) => Machine;
  remove(): void;
}

export interface Machine {
  readonly address: string;
  /** Runs a program on it. */
  readonly wrapper: Wrapper;
  /** Takes another address, and tells the others. */
  takeAddress(address: string): void;
  dropAddress(address: string): void;
  /** Pulls its plug, or puts it back. */
  setLink(up: boolean): void;
  /** Loses everything that goes to an address, without a word, or no longer. */
  setWay(to: string, open: boolean): void;
}

/** @param names of the machines; each gets the address of its number in the list, from 11 on */
export function makeNetwork(count: number): Network {
  // One run of tests beside another must not meet it.
  const id = `p${randomInt(0x1000, 0xffff).toString(16)}`;
  const prefix = `198.51.100`;
  const namespaceOf = (number: number) => `${id}-${number}`;
  must("ip", "link", "add", id, "type", "bridge");
  must("ip", "address", "add", `${prefix}.1/24`, "dev", id);
  must("ip", "link", "set", id, "up");
  for (let number = 0; number < count; number += 1) {
    const namespace = namespaceOf(number);
    must("ip", "netns", "add", namespace);
    must("ip", "link", "add", `${id}v${number}`, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    must("ip", "link", "set", `${id}v${number}`, "master", id, "up");
    must("ip", "-n", namespace, "link", "set", "lo", "up");
    must("ip", "-n", namespace, "address", "add", `${prefix}.${11 + number}/24`, "dev", "eth0");
    must("ip", "-n", namespace, "link", "set", "eth0", "up");
    // As docs/scaling.md has it: who is cut off is noticed within seconds.
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.tcp_retries2=5");
  }
  return {
    own: `${prefix}.1`,
    machine: (number) => {
      const namespace = namespaceOf(number);
      const inside = (...args: string[]) => must("ip", "-n", namespace, ...args);
      return {
        address: `${prefix}.${11 + number}`,
        wrapper: ["ip", "netns", "exec", namespace],
        takeAddress: (address) => {
          inside("address", "add", `${address}/32`, "dev", "eth0");
          // What the others remember of who had it.
          run("ip", "neighbour", "flush", "to", address);
          for (let other = 0; other < count; other += 1)
            run("ip", "-n", namespaceOf(other), "neighbour", "flush", "to", address);
        },
        dropAddress: (address) => inside("address", "delete", `${address}/32`, "dev", "eth0"),
        setLink: (up) => must("ip", "link", "set", `${id}v${number}`, up ? "up" : "down"),
        setWay: (to, open) => {
          if (open) inside("neighbour", "delete", to, "dev", "eth0");
          else inside("neighbour", "replace", to, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent");
        },
      };
    },
    remove: () => {
      for (let number = 0; number < count; number += 1) run("ip", "netns", "delete", namespaceOf(number));
      run("ip", "link", "delete", id);
    },
  };
}

/** A hardware address that no machine has. */
const NOBODY = "02:00:00:00:00:01";

function findObstacle(): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "not root on Linux";
  const probe = `probe-${randomInt(0x1000, 0xffff)}`;
  if (run("ip", "netns", "add", probe).status !== 0) return "`ip netns` is not permitted";
  const link = run("ip", "link", "add", `${probe.slice(0, 12)}b`, "type", "bridge").status === 0;
  run("ip", "link", "delete", `${probe.slice(0, 12)}b`);
  run("ip", "netns", "delete", probe);
  return link ? undefined : "bridges are not permitted";
}

function run(program: string, ...args: string[]) {
  return spawnSync(program, args, { encoding: "utf8", env: { PATH: `${process.env.PATH}:/usr/sbin:/sbin` } });
}

function must(program: string, ...args: string[]): void {
  const { status, stderr, error } = run(program, ...args);
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr || error}`);
}
