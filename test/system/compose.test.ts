import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { ContainerEngine, type Ran, whyNoEngine } from "../support/container-engine.ts";
import { blocksOf } from "../support/deploy-readme.ts";
import { eventually } from "../support/stack.ts";

const reason = whyNoEngine();
const why = reason === undefined ? "" : ` (skipped: ${reason})`;
const OWN = ["bounce", "console", "delivery", "dns-api", "dns-server", "mail-api", "submission", "tracking"];
const PATIENCE_MS = 120_000;

describe.skipIf(reason !== undefined)(`docker-compose.yml in a container engine${why}`, () => {
  const engine = new ContainerEngine();
  // What a clone has, and nothing that lies beside it.
  const folder = mkdtempSync(join(tmpdir(), "palomar-clone-"));
  const run = (commands: string, input?: string): Ran =>
    engine.run("bash", ["-euo", "pipefail", "-c", commands], {
      cwd: folder,
      ...(input === undefined ? {} : { input }),
    });
  const must = (commands: string, input?: string): string =>
    engine.must("bash", ["-euo", "pipefail", "-c", commands], {
      cwd: folder,
      ...(input === undefined ? {} : { input }),
    });
  /** Of what does not come up the log of `migrate` is told, which all others wait for. */
  const comeUp = (commands: string): void => {
    const { status, stdout, stderr } = run(commands);
    if (status === 0) return;
    const { stdout: log } = run("docker compose logs --no-color --timestamps migrate database | tail -n 60");
    throw new Error(`${commands}: status ${status}\n${stdout}${stderr.slice(-3_000)}\n${log}`);
  };
  const palomar = (words: string, input?: string) => must(`docker compose exec -T console palomar ${words}`, input);
  const dig = (words: string) => must(`dig +time=2 +tries=1 +short @127.0.0.1 ${words}`).trim();
  const curl = (words: string) => run(`curl --silent --insecure --max-time 20 ${words}`);
  const states = (): Map<string, string> =>
    new Map(
      must("docker compose ps --all --format '{{.Service}} {{.Status}}'")
        .trim()
        .split("\n")
        .map((line) => [line.split(" ")[0]!, line.slice(line.indexOf(" ") + 1)]),
    );
  const isHealthy = (service: string) => states().get(service)?.includes("(healthy)") ?? false;
  const allHealthy = () =>
    eventually(
      async () => [...OWN, "database", "proxy"].filter((service) => !isHealthy(service)),
      (waiting) => waiting.length === 0,
      PATIENCE_MS,
    );
  let key = "";

  beforeAll(async () => {
    const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
      cwd: packageFolder,
      encoding: "utf8",
    });
    for (const file of files.split("\0").filter((name) => name !== "" && !name.startsWith("test/"))) {
      mkdirSync(join(folder, dirname(file)), { recursive: true });
      cpSync(join(packageFolder, file), join(folder, file));
    }
    chmodSync(folder, 0o755);
    await engine.start();
    // That of an earlier run, which `up` would take as it is: what it was made of stays in the engine's cache.
    engine.run("docker", ["image", "rm", "--force", "palomar:local"]);
    // Where the engine has none of the images yet, they are made first.
  }, 600_000);

  afterAll(async () => {
    run("docker compose --profile '*' down --volumes --timeout 10");
    await engine.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("comes up as the README says, each service well", async () => {
    comeUp("deploy/prepare && docker compose up --detach");
    await allHealthy();
    expect(states().get("migrate")).toMatch(/^Exited \(0\)/);
  });

  it("every container of ours is an ordinary user without capabilities on a root that nobody writes", () => {
    for (const service of OWN) {
      const { HostConfig, Config } = JSON.parse(must(`docker inspect palomar-${service}-1`))[0];
      expect({ service, user: Config.User, readOnly: HostConfig.ReadonlyRootfs, drop: HostConfig.CapDrop }).toEqual({
        ...{ service, user: "node", readOnly: true, drop: ["ALL"] },
      });
      const status = must(`docker compose exec -T ${service} cat /proc/1/status`);
      expect(/^CapEff:\s+(\w+)$/m.exec(status)?.[1], service).toBe("0".repeat(16));
      expect(run(`docker compose exec -T ${service} touch /app/x`).status, service).not.toBe(0);
    }
  });

  it("one image is built for all of them", () => {
    const images = must("docker ps --all --format '{{.Image}}'").trim().split("\n");
    expect(images.filter((name) => name === "palomar:local")).toHaveLength(OWN.length + 1);
  });

  it("the proxy speaks TLS, and shows the pages and both APIs with their documentation", async () => {
    expect(curl("--output /dev/null --write-out '%{http_code} %{redirect_url}' http://127.0.0.1/").stdout).toBe(
      "301 https://127.0.0.1/",
    );
    for (const [path, text] of [
      ["/", "<title>"],
      ["/api/docs", "DNS API"],
      ["/api/openapi.json", '"openapi"'],
      ["/v1/docs", "API"],
      ["/v1/openapi.json", '"openapi"'],
    ] as const) {
      expect(curl(`https://127.0.0.1${path}`).stdout, path).toContain(text);
    }
  });

  it("zones are made over HTTPS, and answered over UDP and TCP, by IPv4 and IPv6", async () => {
    expect(palomar("user add admin --role operator")).toMatch(/^admin \S+$/m);
    key = JSON.parse(palomar("--json reseller add acme --name Acme")).key;
    const call = (path: string, body: object) =>
      curl(
        `--header 'Authorization: ${key}' --header 'Reseller: acme' --json '${JSON.stringify(body)}' https://127.0.0.1/api/v1/${path}`,
      ).stdout;
    call("company", { crm_id: "one", name: "One", apikey: "company-api-key-0001" });
    const zone = { crm_id: "one", mname: "ns1.example.org", rname: "hostmaster.example.org" };
    const times = { refresh: 7200, retry: 900, expire: 1209600, minimum: 300, ttl: 300 };
    expect(call("master_zone/example.org", { ...zone, ...times, serial_type: "numeric" })).toContain('"serial"');
    call("rr/example.org", { name: "www", type: "A", value: "192.0.2.10" });
    await eventually(
      async () => dig("www.example.org A"),
      (answer) => answer === "192.0.2.10",
    );
    expect(dig("+tcp www.example.org A")).toBe("192.0.2.10");
    for (const how of ["", "+tcp"])
      expect(must(`dig +time=2 +tries=1 +short ${how} @::1 www.example.org A`).trim()).toBe("192.0.2.10");
    expect(curl("--output /dev/null --write-out '%{http_code}' https://[::1]/").stdout).toBe("200");
  });

  it("a zone comes in by a file on standard input", async () => {
    const file = "$TTL 60\n@ SOA ns1 hostmaster 1 7200 900 1209600 300\n@ NS ns1\nns1 A 192.0.2.1\n";
    palomar("zone import acme one piped.example.org -", file);
    await eventually(
      async () => dig("ns1.piped.example.org A"),
      (answer) => answer === "192.0.2.1",
    );
  });

  it("a Knot takes every zone by catalog, as printed, and drops what is deleted", async () => {
    must(blocksOf("The Knot secondary").join(""));
    const knot = (name: string) => run(`dig +time=1 +tries=1 @127.0.0.1 -p 5353 ${name}`).stdout;
    await eventually(
      async () => knot("www.example.org A"),
      (answer) => answer.includes("192.0.2.10"),
      PATIENCE_MS,
    ).catch((error) => {
      throw new Error(run("docker compose logs knot").stdout.slice(-3_000), { cause: error });
    });
    curl(
      `--request DELETE --header 'Authorization: ${key}' --header 'Reseller: acme' --json '{"crm_id":"one"}' https://127.0.0.1/api/v1/master_zone/piped.example.org`,
    );
    await eventually(
      async () => knot("ns1.piped.example.org A"),
      (answer) => /status: (REFUSED|NXDOMAIN|SERVFAIL)/.test(answer) && !answer.includes("192.0.2.1\n"),
      PATIENCE_MS,
    );
  });

  it("mail is taken on 25, 465 and 587", () => {
    for (const [port, how] of [
      [25, "--quit-after HELO"],
      [587, "--tls --quit-after TLS"],
      [465, "--tlsc --quit-after HELO"],
    ] as const) {
      const { status, stdout } = run(`swaks --server 127.0.0.1 --port ${port} ${how} --to a@example.org`);
      expect({ port, status, greets: /<[-~*]* +220 /.test(stdout) }, stdout).toEqual({ port, status: 0, greets: true });
    }
  });

  it("commands of the README run as printed", () => {
    must(blocksOf("Keys for each service").join(""));
    expect(must(blocksOf("A role for each service").join(""))).toContain("palomar_dns_server");
    must(blocksOf("Backup").join(""));
    expect(must("ls -l backups")).toMatch(/palomar\.backup/);
  });

  it("what is killed comes back", async () => {
    for (const service of [...OWN, "proxy", "database"]) {
      const pid = Number(must(`docker inspect --format '{{.State.Pid}}' palomar-${service}-1`));
      expect(pid, service).toBeGreaterThan(1);
      process.kill(pid, "SIGKILL");
    }
    await allHealthy();
    expect(dig("www.example.org A")).toBe("192.0.2.10");
  });

  it("after everything is made anew a service is the node that it was", async () => {
    comeUp("docker compose up --detach --force-recreate");
    await allHealthy();
    const status = JSON.parse(run("docker compose exec -T console palomar --json status").stdout) as {
      nodes: { node: string }[];
    };
    expect(status.nodes.map(({ node }) => node).sort()).toEqual(OWN);
  });

  it("`down` and `up` keep what there is; `up --build` brings in another release", async () => {
    comeUp("docker compose down && docker compose up --detach --build");
    await allHealthy();
    expect(dig("www.example.org A")).toBe("192.0.2.10");
  });

  it("Prometheus reaches every target, and loads every rule", async () => {
    must("docker compose --profile monitoring up --detach --no-deps prometheus");
    const ask = (path: string) =>
      JSON.parse(
        must(`docker compose --profile monitoring exec -T prometheus wget -qO- http://127.0.0.1:9090/api/v1/${path}`),
      );
    await eventually(
      async () => {
        const { status, stdout } = run(
          "docker compose --profile monitoring exec -T prometheus wget -qO- http://127.0.0.1:9090/api/v1/targets",
        );
        return status === 0 ? (JSON.parse(stdout).data.activeTargets as { health: string }[]) : [];
      },
      (targets) => targets.length >= OWN.length && targets.every(({ health }) => health === "up"),
      PATIENCE_MS,
    );
    const groups = ask("rules").data.groups as { rules: { health: string }[] }[];
    const rules = groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(5);
    expect(rules.filter(({ health }) => health === "err")).toEqual([]);
  });

  it("no log has an error", () => {
    const logs = must("docker compose logs --no-color");
    // While the database was killed, they said so.
    const wrong = logs.split("\n").filter((line) => /permission denied|"level":"fatal"|uncaught/i.test(line));
    expect(wrong).toEqual([]);
  });

  it("a certificate's key that nobody may read ends `up` with the file's name, instead of a service that starts over and over", () => {
    must("docker compose down && chown root:root secrets/tls_key && chmod 600 secrets/tls_key");
    expect(run("docker compose up --detach").status).not.toBe(0);
    expect(must("docker compose logs migrate")).toMatch(/PALOMAR_TLS_KEY: .*tls_key/);
  });
});
