import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { BlockList } from "node:net";
import { atExit } from "./at-exit.ts";
import type { Wrapper } from "./deployment.ts";

/** Why machines cannot be played here; undefined where they can. */
export const whyNoNetwork: string | undefined = findObstacle();

/** A network of machines, each in a network namespace of its own, all on one bridge of this machine. */
export interface Network {
  /** Where all of its addresses are, as `address/length`. */
  readonly subnet: string;
  /** This machine's address on it. */
  readonly own: string;
  /** An address on it that no machine has, until one takes it. */
  readonly spare: string;
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

const SUBNET_LENGTH = 28;
const SUBNET_SIZE = 2 ** (32 - SUBNET_LENGTH);
/** Of a subnet's addresses the first and the last are nobody's, one is this machine's, and one is spare. */
const MOST_MACHINES = SUBNET_SIZE - 4;

/** @param count of the machines, at most 12 */
export function makeNetwork(count: number): Network {
  if (count > MOST_MACHINES) throw new Error(`a network of ${count} machines: it takes at most ${MOST_MACHINES}`);
  // One run of tests beside another, or what is left of one that was killed, must not meet it.
  const id = `p${randomInt(0x1000, 0xffff).toString(16)}`;
  const { prefix, first } = findSubnet();
  const addressOf = (host: number) => `${prefix}.${first + host}`;
  const [own, spare] = [addressOf(1), addressOf(SUBNET_SIZE - 2)];
  const machineAddress = (number: number) => addressOf(2 + number);
  const namespaceOf = (number: number) => `${id}-${number}`;
  const remove = () => {
    for (let number = 0; number < count; number += 1) run("ip", "netns", "delete", namespaceOf(number));
    run("ip", "link", "delete", id);
  };
  const forget = atExit(remove);
  must("ip", "link", "add", id, "type", "bridge");
  must("ip", "address", "add", `${own}/${SUBNET_LENGTH}`, "dev", id);
  must("ip", "link", "set", id, "up");
  for (let number = 0; number < count; number += 1) {
    const namespace = namespaceOf(number);
    must("ip", "netns", "add", namespace);
    must("ip", "link", "add", `${id}v${number}`, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    must("ip", "link", "set", `${id}v${number}`, "master", id, "up");
    must("ip", "-n", namespace, "link", "set", "lo", "up");
    must("ip", "-n", namespace, "address", "add", `${machineAddress(number)}/${SUBNET_LENGTH}`, "dev", "eth0");
    must("ip", "-n", namespace, "link", "set", "eth0", "up");
    // As docs/scaling.md has it: who is cut off is noticed within seconds.
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.tcp_retries2=5");
  }
  return {
    subnet: `${addressOf(0)}/${SUBNET_LENGTH}`,
    own,
    spare,
    machine: (number) => {
      const namespace = namespaceOf(number);
      const inside = (...args: string[]) => must("ip", "-n", namespace, ...args);
      return {
        address: machineAddress(number),
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
      forget();
      remove();
    },
  };
}

/** A hardware address that no machine has. */
const NOBODY = "02:00:00:00:00:01";

/** One of the subnets for documentation (RFC 5737) that no interface of this machine reaches yet. */
function findSubnet(): { readonly prefix: string; readonly first: number } {
  const taken = new BlockList();
  const interfaces: readonly { addr_info: readonly { local: string; prefixlen: number }[] }[] = JSON.parse(
    must("ip", "-4", "-json", "address", "show"),
  );
  const addresses = interfaces.flatMap(({ addr_info }) => addr_info);
  for (const { local, prefixlen } of addresses) taken.addSubnet(local, Math.min(prefixlen, SUBNET_LENGTH), "ipv4");
  const free = ["198.51.100", "203.0.113"]
    .flatMap((prefix) =>
      Array.from({ length: 256 / SUBNET_SIZE }, (_, index) => ({ prefix, first: index * SUBNET_SIZE })),
    )
    .filter(({ prefix, first }) => !taken.check(`${prefix}.${first}`));
  if (free.length === 0) throw new Error("every subnet for documentation is in use here: `ip address` shows where");
  // Two runs that look at the same moment rarely choose the same.
  return free[randomInt(free.length)]!;
}

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

/** @returns what the program printed */
function must(program: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = run(program, ...args);
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr || error}`);
  return stdout;
}
