import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AcmeAuthority, isReady, startAcme } from "../support/acme.ts";
import { callApi } from "../support/api-client.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { eventually, makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "../support/stack.ts";

const missing = ["pebble", "openssl", "lego"].filter((program) => !isInstalled(program));
const why = missing.length > 0 ? ` (skipped: ${missing.join(", ")} not installed)` : "";
const ZONE = "acme.example.net";
const COMPANY_KEY = "acme-company-key-0001";

describe.skipIf(why !== "")(`certificates by PowerDNS's API and a token for _acme-challenge alone${why}`, () => {
  const dataDir = makeDataDir();
  let stack: StartedStack;
  let acme: AcmeAuthority;
  let token: string;

  beforeAll(async () => {
    stack = await startUsedStack(dataDir, {}, ["dns-api", "dns-server"]);
    const { id, key } = stack.credentials.reseller;
    const company = { crm_id: "acme", name: "Acme", apikey: COMPANY_KEY };
    await call("POST", "/api/v1/company", { Authorization: key, Reseller: id }, company);
    const zone = { name: `${ZONE}.`, kind: "Native", nameservers: ["ns1.example.org."] };
    await call("POST", "/api/v1/servers/localhost/zones", { "X-API-Key": COMPANY_KEY }, zone);
    const policy = { name: "lego", access: "write", zones: [ZONE], names: ["_acme-challenge.**"], types: ["TXT"] };
    const made = await call("POST", "/api/v1/token", { Authorization: COMPANY_KEY, Reseller: id }, policy);
    token = made.token;
    const { hostname: host, port } = new URL(`udp://${stack.addresses.dns}`);
    acme = await startAcme({ host, port: Number(port) });
    await eventually(
      () => isReady(acme),
      (ready) => ready,
    );
  });
  afterAll(async () => {
    await acme?.stop();
    await stack?.stop();
    removeDataDir(dataDir);
  });

  it("lego gets and renews one for a wildcard, and nothing of the challenge stays", async () => {
    const account = ["--server", acme.url, "--email", "admin@example.net", "--accept-tos", "--path", acme.folder];
    const resolver = ["--dns.disable-cp", "--dns.resolvers", stack.addresses.dns];
    const lego = [...account, "--dns", "pdns", ...resolver, "--domains", `*.${ZONE}`];
    const env = {
      ...{ PATH: process.env.PATH, LEGO_CA_CERTIFICATES: acme.certificate },
      ...{ PDNS_API_URL: stack.addresses.dns_api, PDNS_API_KEY: token },
    };
    await promisify(execFile)("lego", [...lego, "run"], { env });
    await promisify(execFile)("lego", [...lego, "renew", "--days", "99999", "--no-random-sleep"], { env });
    expect(readFileSync(join(acme.folder, "certificates", `_.${ZONE}.crt`), "utf8")).toContain("BEGIN CERTIFICATE");
    const { rrsets } = await call("GET", `/api/v1/servers/localhost/zones/${ZONE}.`, { "X-API-Key": COMPANY_KEY });
    expect(rrsets.map(({ type }: { type: string }) => type)).toEqual(["SOA", "NS"]);
  });

  async function call(method: string, path: string, headers: Record<string, string>, body?: object) {
    const answer = await callApi(method, `${stack.addresses.dns_api}${path}`, headers, body);
    expect([method, path, Math.floor(answer.status / 100), answer.body]).toEqual([method, path, 2, answer.body]);
    return answer.body;
  }
});
