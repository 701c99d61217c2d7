import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { SERVICE_NAMES } from "../../services/platform/service.ts";
import { atExit } from "../support/at-exit.ts";
import { makeDebian, whyNoSystem } from "../support/debian-system.ts";
import { blocksOf } from "../support/deploy-readme.ts";
import { ended, eventually } from "../support/stack.ts";

/** What a machine for the units has of Debian 13; Node is this machine's. */
const PACKAGES = ["systemd", "systemd-sysv", "postgresql-17", "procps", "curl", "openssl", "bind9-dnsutils"];
const SERVICES = SERVICE_NAMES.filter((name) => name !== "sandbox");

const reason = whyNoSystem(["systemd-nspawn"]);
const why = reason === undefined ? "" : ` (skipped: ${reason})`;

describe.skipIf(reason !== undefined)(`the units of deploy/systemd, started by systemd${why}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-systemd-"));
  const root = join(folder, "root");
  const steps = blocksOf("Without containers").map((block) => block.replaceAll("sudo ", ""));
  let machine: ChildProcess;

  /** The machine's first process, as it is numbered here; undefined when there is none. */
  function firstProcess(): number | undefined {
    const { pid } = machine;
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return first ? Number(first) : undefined;
  }

  /** With the first process all that runs on the machine goes; who started it does not take it along. */
  function powerOff(): void {
    if (machine === undefined || machine.exitCode !== null || machine.signalCode !== null) return;
    const first = firstProcess();
    if (first !== undefined) process.kill(first, "SIGKILL");
  }

  /** Runs shell commands on the machine, as root. @returns what they printed */
  function must(commands: string): string {
    const first = firstProcess();
    const namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid"];
    const words = [
      `--target=${first}`,
      ...namespaces,
      "--",
      "bash",
      "-euo",
      "pipefail",
      "-c",
      `cd /opt/palomar; ${commands}`,
    ];
    const { status, stdout, stderr } = spawnSync("nsenter", words, {
      encoding: "utf8",
      env: { PATH: "/usr/bin:/usr/sbin" },
    });
    if (status !== 0) throw new Error(`${commands}: status ${status}\n${stdout}${stderr}`);
    return stdout;
  }

  beforeAll(async () => {
    const parts = ["upper", "work", "root", "release"].map((name) => join(folder, name));
    for (const part of parts) mkdirSync(part);
    const [upper, work] = parts;
    execFileSync("mount", [
      ...["-t", "overlay", "-o", `lowerdir=${makeDebian(PACKAGES)},upperdir=${upper},workdir=${work}`, "overlay", root],
    ]);
    const unmount = () => spawnSync("umount", ["--lazy", root]);
    atExit(unmount);
    const options = ["--boot", "--register=no", "--keep-unit", "--private-network", "--console=passive"];
    const files = [
      `--bind-ro=${process.execPath}:/usr/bin/node`,
      `--overlay=${packageFolder}:${folder}/release:/opt/palomar`,
    ];
    machine = spawn("systemd-nspawn", [`--directory=${root}`, ...options, ...files], { stdio: "ignore" });
    machine.once("exit", atExit(powerOff));
    await eventually(
      async () => attempt("systemctl is-system-running; pg_lsclusters --no-header"),
      (said) => said?.includes("online") ?? false,
    );
    must(steps[0]!);
    must(
      `su postgres -c "psql -qc \\"create role palomar login createrole password '$(cat secrets/postgres_password)'\\""`,
    );
    must(`su postgres -c "createdb --owner=palomar palomar"`);
    must(`cat >>/etc/palomar/palomar.env <<END\n${LOW_PORTS}END`);
    must(steps[1]!);
    await untilReady();
  });

  afterAll(async () => {
    powerOff();
    if (machine !== undefined) await ended(machine);
    spawnSync("umount", ["--lazy", root]);
    rmSync(folder, { recursive: true, force: true });
  });

  function attempt(commands: string): string | undefined {
    try {
      return must(commands);
    } catch {
      return undefined;
    }
  }

  const portOf = (service: string) => /_METRICS_LISTEN=.*:(\d+)/.exec(must(`cat /etc/palomar/${service}.env`))![1]!;
  const isReady = (service: string) =>
    attempt(`curl --fail --silent http://127.0.0.1:${portOf(service)}/readyz`) !== undefined;
  const untilReady = () =>
    eventually(
      async () => SERVICES.filter((service) => !isReady(service)),
      (waiting) => waiting.length === 0,
      120_000,
    );
  const mainPid = (service: string) => must(`systemctl show --property MainPID --value palomar@${service}`).trim();

  it("every service runs as a user of its own, with the right to open low ports and no other", () => {
    const users = SERVICES.map((service) => {
      const status = must(`cat /proc/${mainPid(service)}/status`);
      // CAP_NET_BIND_SERVICE alone.
      expect(/^CapEff:\s+(\w+)$/m.exec(status)?.[1], service).toBe("0000000000000400");
      expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
      return /^Uid:\s+(\d+)/m.exec(status)![1]!;
    });
    expect(users).not.toContain("0");
    expect(new Set(users).size).toBe(SERVICES.length);
  });

  it("they answer on the ports that the world knows", async () => {
    for (const how of ["+notcp", "+tcp"]) {
      await eventually(
        async () => attempt(`dig ${how} +time=1 +tries=1 @127.0.0.1 example.org`) ?? "",
        (said) => said.includes("REFUSED"),
      );
    }
    for (const port of [25, 587]) {
      expect(must(`exec 3<>/dev/tcp/127.0.0.1/${port}; head -n 1 <&3`)).toMatch(/^220 /);
    }
  });

  it("a service reads its own secrets, and no other's", () => {
    const own = "/run/credentials/palomar@dns-api.service/secret_keys";
    const readAs = (service: string) =>
      attempt(`setpriv --reuid=$(stat -c %u /proc/${mainPid(service)}) --clear-groups cat ${own}`);
    expect(readAs("dns-api")).toContain("keys of dns-api");
    expect(readAs("mail-api")).toBeUndefined();
  });

  it("what is killed comes back, and what is stopped ends well", async () => {
    for (const service of SERVICES) process.kill(pidHere(service), "SIGKILL");
    await untilReady();
    must("systemctl stop 'palomar@*'");
    expect(must("systemctl list-units --failed --no-legend")).toBe("");
  });

  /** The process id on this machine of a service's first process on that one. */
  function pidHere(service: string): number {
    const inside = mainPid(service);
    for (const status of execFileSync("bash", ["-c", "grep -H ^NSpid /proc/[0-9]*/status 2>/dev/null || true"], {
      encoding: "utf8",
    }).split("\n")) {
      const [, own, there] = /^\/proc\/(\d+)\/status:NSpid:\s+\d+\s+(\d+)$/.exec(status) ?? [];
      if (there === inside) return Number(own);
    }
    throw new Error(`${service} does not run`);
  }

  it("nothing was denied", () => {
    const said = must("journalctl --no-pager --unit 'palomar*' --output cat");
    expect(said.split("\n").filter((line) => /denied|EPERM|EACCES|"level":[56]0/.test(line))).toEqual([]);
  });
});

const LOW_PORTS = `PALOMAR_DNS_LISTEN=0.0.0.0:53
PALOMAR_MX_LISTEN=0.0.0.0:25
PALOMAR_SUBMISSION_LISTEN=0.0.0.0:587
PALOMAR_SUBMISSIONS_LISTEN=0.0.0.0:465
`;
