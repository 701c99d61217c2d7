import { existsSync } from "node:fs";
import type { Config } from "../platform/config/config.ts";
import { splitHostPort } from "../platform/config/config-values.ts";
import type { Db } from "../platform/postgres/db.ts";
import { type Addresses, firstAddress } from "../platform/service.ts";
import { type Credentials, credentialsPath } from "./demo.ts";

export interface BannerOptions {
  readonly config: Config;
  readonly addresses: Addresses;
  /** Given on the first start that gets this far: printed once. */
  readonly credentials: Credentials | undefined;
  readonly db: Db;
}

/** What a start prints once everything is ready: addresses, first-run credentials, and commands that work as printed. */
export async function composeBanner(options: BannerOptions): Promise<string> {
  const { config, addresses, credentials, db } = options;
  const lines = ["Palomar is ready.", "", ...listAddresses(addresses)];
  if (credentials) {
    lines.push("", `Demo credentials (kept in ${credentialsPath(config.dataDir)}, shown once):`);
    lines.push(`  reseller  ${credentials.reseller.id}  key ${credentials.reseller.key}`);
    lines.push(`  company   ${credentials.company.crm_id}  key ${credentials.company.apikey}`);
    lines.push(`  instance  ${credentials.instance.name}  key ${credentials.instance.key}`);
    lines.push(`  operator  ${credentials.operator.login}  password ${credentials.operator.password}`);
  }
  if (existsSync(credentialsPath(config.dataDir))) {
    const commands = await sampleCommands(options, await unusedZone(db));
    if (commands.length > 0) lines.push("", "Try it:", ...commands);
  }
  return `${lines.join("\n")}\n`;
}

function listAddresses(addresses: Addresses): string[] {
  const names: [keyof Addresses, string][] = [
    ["mail_api", "mail API"],
    ["dns_api", "DNS API"],
    ["dns_api_tls", "DNS API (HTTPS)"],
    ["console", "console"],
    ["tracking", "tracking"],
    ["tracking_tls", "tracking (HTTPS)"],
    ["dns", "DNS"],
    ["dns_tls", "DNS over TLS"],
    ["dns_https", "DNS over HTTPS"],
    ["submission", "submission"],
    ["submissions", "submission (TLS)"],
    ["mx", "inbound SMTP"],
    ["metrics", "metrics"],
  ];
  return names
    .filter(([name]) => addresses[name] !== undefined)
    .map(([name, title]) => `  ${title.padEnd(18)}${addresses[name]}`);
}

/** Commands for a POSIX shell; on later starts keys are read from the credentials file instead of being shown again. */
async function sampleCommands(options: BannerOptions, zone: string): Promise<string[]> {
  const { config, credentials } = options;
  const all = Object.entries(options.addresses).map(([name, addresses]) => [name, firstAddress(addresses)]);
  const addresses: Addresses = Object.fromEntries(all);
  const file = credentialsPath(config.dataDir).replaceAll("'", "'\\''");
  const kept = (field: string) => `$(node -p 'require("${file}").${field}')`;
  const resellerKey = credentials?.reseller.key ?? kept("reseller.key");
  const instanceKey = credentials?.instance.key ?? kept("instance.key");
  const commands: string[] = [];
  if (addresses.dns_api) {
    const call = `curl -s -H "Authorization: ${resellerKey}" -H 'Reseller: demo'`;
    const soa = `{"crm_id":"demo","mname":"ns1.${zone}","rname":"hostmaster.${zone}","refresh":7200,"retry":900,"expire":1209600,"minimum":300,"ttl":3600,"serial_type":"numeric"}`;
    commands.push(`${call} -d '${soa}' ${addresses.dns_api}/api/v1/master_zone/${zone}`);
    commands.push(`${call} -d '{"name":"www","type":"A","value":"192.0.2.10"}' ${addresses.dns_api}/api/v1/rr/${zone}`);
  }
  if (addresses.mail_api) {
    const call = `curl -s -H "Authorization: ${instanceKey}" -H 'Content-Type: application/json'`;
    const campaign =
      '{"tipo":"api","nombre":"demo","remitente":"news@demo.example","remitente_nombre":"Demo","asunto":"Hello","url":"http://www.demo.example/","charset":"utf8","desusc":"no"}';
    commands.push(`CAMPAIGN=$(${call} -d '${campaign}' ${addresses.mail_api}/v1/campania/); echo "$CAMPAIGN"`);
    commands.push(`NUMID=$(echo "$CAMPAIGN" | sed 's/.*"numid": *\\([0-9]*\\).*/\\1/')`);
    const message = `{"campana_id":'$NUMID',"email":true,"contacto":{"email":"someone@example.org"},"html":"<p>Hello from Palomar</p>"}`;
    commands.push(`${call} -d '${message}' ${addresses.mail_api}/v1/envio/send_one_inline/`);
  }
  // Not right behind the record: a change may take 100 ms to the wire, and pasted lines run at once.
  if (addresses.dns) {
    const { host, port } = splitHostPort(addresses.dns);
    commands.push(`dig @${host} -p ${port} www.${zone} A +noall +answer`);
  }
  if (addresses.submission && addresses.mail_api) {
    const key = `"$(echo "$CAMPAIGN" | sed 's/.*"camp_apikey": *"\\([^"]*\\)".*/\\1/')"`;
    commands.push(
      `swaks --server ${addresses.submission} --tls --auth PLAIN --auth-user demo-$NUMID --auth-password ${key} --from news@demo.example --to someone@example.org`,
    );
  }
  return commands.map((command) => `  ${command}`);
}

/** A zone that the samples may create, on every start. */
async function unusedZone(db: Db): Promise<string> {
  for (let number = 1; ; number++) {
    const zone = number === 1 ? "example.org" : `example-${number}.test`;
    if (!(await db("zones").where({ name: zone }).first("id"))) return zone;
  }
}
