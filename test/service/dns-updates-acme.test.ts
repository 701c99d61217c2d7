import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AcmeAuthority, isReady, startAcme } from "../support/acme.ts";
import { eventually } from "../support/dns-server.ts";
import {
  runProgram,
  startUpdateStack,
  type UpdateKey,
  type UpdateStack,
  untilKeyIsKnown,
} from "../support/dns-updates.ts";
import { isInstalled } from "../support/peers-processes.ts";

/** Clients, and what they need beside themselves. */
const CLIENTS: Readonly<Record<string, readonly string[]>> = {
  certbot: ["certbot"],
  lego: ["lego"],
  dehydrated: ["dehydrated", "nsupdate"],
  uacme: ["uacme", "nsupdate", "unshare"],
};
const CERTBOT_PLUGIN = "/usr/lib/python3/dist-packages/certbot_dns_rfc2136";

const absenceOf = (programs: readonly string[]): string => {
  const missing = ["pebble", "openssl", ...programs].filter((program) => !isInstalled(program));
  if (programs.includes("certbot") && !existsSync(CERTBOT_PLUGIN)) missing.push("python3-certbot-dns-rfc2136");
  return missing.length > 0 ? ` (skipped: ${missing.join(", ")} not installed)` : "";
};

describe.skipIf(absenceOf([]) !== "")(`certificates by a key for _acme-challenge alone${absenceOf([])}`, () => {
  let stack: UpdateStack;
  let acme: AcmeAuthority;
  let zone: string;
  let key: UpdateKey;

  beforeAll(async () => {
    stack = await startUpdateStack();
    zone = await stack.makeZone();
    key = await stack.makeKey({ zones: [zone], names: [`_acme-challenge.**.${zone}`], types: ["TXT"] });
    acme = await startAcme(stack);
    await eventually(() => isReady(acme), 60_000);
    await untilKeyIsKnown(stack, zone, key);
  });
  afterAll(async () => {
    await acme?.stop();
    await stack?.stop();
  });

  it.skipIf(absenceOf(CLIENTS.certbot!) !== "")(`certbot${absenceOf(CLIENTS.certbot!)}`, async () => {
    const folder = place("certbot");
    const credentials = join(folder, "rfc2136.ini");
    const lines = {
      server: stack.host,
      port: stack.port,
      name: key.name,
      secret: key.secret,
      algorithm: "HMAC-SHA256",
    };
    const text = Object.entries(lines).map(([name, value]) => `dns_rfc2136_${name} = ${value}\n`);
    writeFileSync(credentials, text.join(""), { mode: 0o600 });
    const folders = ["config", "work", "logs"].flatMap((name) => [`--${name}-dir`, join(folder, name)]);
    const common = [...folders, "--server", acme.url, "--no-verify-ssl", "--non-interactive"];
    const plugin = [
      "--dns-rfc2136",
      "--dns-rfc2136-credentials",
      credentials,
      "--dns-rfc2136-propagation-seconds",
      "1",
    ];
    const account = ["--agree-tos", "--email", "admin@example.net", "--no-eff-email"];
    await run("certbot", ["certonly", ...common, ...plugin, ...account, "-d", `*.${zone}`]);
    await run("certbot", ["renew", ...common, "--force-renewal", "--no-random-sleep-on-renew"]);
    await expectCertificate(join(folder, "config", "live", zone, "cert.pem"));
  });

  it.skipIf(absenceOf(CLIENTS.lego!) !== "")(`lego${absenceOf(CLIENTS.lego!)}`, async () => {
    const folder = place("lego");
    const settings = {
      LEGO_CA_CERTIFICATES: acme.certificate,
      RFC2136_NAMESERVER: `${stack.host}:${stack.port}`,
      RFC2136_TSIG_KEY: key.name,
      RFC2136_TSIG_SECRET: key.secret,
      RFC2136_TSIG_ALGORITHM: "hmac-sha256.",
    };
    const environment = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
    const resolver = ["--dns.disable-cp", "--dns.resolvers", `${stack.host}:${stack.port}`];
    const account = ["--server", acme.url, "--email", "admin@example.net", "--accept-tos", "--path", folder];
    const lego = ["lego", ...account, "--dns", "rfc2136", ...resolver, "--domains", `*.${zone}`];
    await run("env", [...environment, ...lego, "run"]);
    await run("env", [...environment, ...lego, "renew", "--days", "99999", "--no-random-sleep"]);
    await expectCertificate(join(folder, "certificates", `_.${zone}.crt`));
  });

  it.skipIf(absenceOf(CLIENTS.dehydrated!) !== "")(`dehydrated${absenceOf(CLIENTS.dehydrated!)}`, async () => {
    const folder = place("dehydrated");
    const hook = writeHook(
      folder,
      'case "$1" in deploy_challenge) verb=add;; clean_challenge) verb=delete;; *) exit 0;; esac',
      {
        ident: "$2",
        value: "$4",
      },
    );
    const config = join(folder, "config");
    writeFileSync(config, `CA=${acme.url}\nCURL_OPTS=-k\nCHALLENGETYPE=dns-01\nBASEDIR=${folder}\nHOOK=${hook}\n`);
    await run("dehydrated", ["--register", "--accept-terms", "-f", config]);
    const domain = ["-d", `*.${zone}`, "--alias", "wild"];
    await run("dehydrated", ["-c", "-f", config, ...domain]);
    await run("dehydrated", ["-c", "-x", "-f", config, ...domain]);
    await expectCertificate(join(folder, "certs", "wild", "cert.pem"));
  });

  const whyNoUacme = process.getuid?.() === 0 ? absenceOf(CLIENTS.uacme!) : " (skipped: needs root to mount)";
  it.skipIf(whyNoUacme !== "")(`uacme${whyNoUacme}`, async () => {
    const folder = place("uacme");
    const hook = writeHook(
      folder,
      '[ "$2" = dns-01 ] || exit 1\ncase "$1" in begin) verb=add;; *) verb=delete;; esac',
      { ident: "$3", value: "$5" },
    );
    // It believes the system's authorities alone: it gets others in a mount namespace of its own.
    const believing = `mount --bind ${acme.certificate} /etc/ssl/certs/ca-certificates.crt && exec uacme "$@"`;
    const common = ["--mount", "sh", "-c", believing, "uacme", "-c", folder, "-a", acme.url, "-y"];
    await run("unshare", [...common, "new", "admin@example.net"]);
    await run("unshare", [...common, "-h", hook, "issue", `*.${zone}`]);
    await run("unshare", [...common, "-h", hook, "-d", "99999", "issue", `*.${zone}`]);
    await expectCertificate(join(folder, zone, "cert.pem"));
  });

  function place(client: string): string {
    const folder = join(acme.folder, client);
    mkdirSync(folder);
    return folder;
  }

  /** A hook that adds and deletes the record by nsupdate. */
  function writeHook(
    folder: string,
    head: string,
    { ident, value }: { readonly ident: string; readonly value: string },
  ) {
    const hook = join(folder, "hook.sh");
    const update = `update $verb _acme-challenge.%s. 60 TXT "%s"`;
    writeFileSync(
      hook,
      `#!/bin/sh\n${head}\nprintf 'server ${stack.host} ${stack.port}\\nzone ${zone}.\\n${update.replace("$verb", "%s")}\\nsend\\n' \\
  "$verb" "${ident}" "${value}" | nsupdate -y hmac-sha256:${key.name}:${key.secret}\n`,
    );
    chmodSync(hook, 0o755);
    return hook;
  }

  async function run(program: string, args: readonly string[]): Promise<void> {
    const { status, output } = await runProgram(program, args, "");
    expect({ program, args, status, output }).toEqual({ program, args, status: 0, output: expect.any(String) });
  }

  /** It is for the wildcard, and nothing of the challenge stays. */
  async function expectCertificate(file: string): Promise<void> {
    expect(readFileSync(file, "utf8")).toContain("BEGIN CERTIFICATE");
    const { output } = await runProgram("openssl", ["x509", "-in", file, "-noout", "-ext", "subjectAltName"], "");
    expect(output).toContain(`DNS:*.${zone}`);
    const { body } = await stack.api.call("GET", `/api/v1/rr/${zone}`);
    expect(body.rr.filter(({ type }: { type: string }) => type === "TXT")).toEqual([]);
  }
});
