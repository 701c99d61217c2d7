import { type ChildProcess, spawn } from "node:child_process";
import type { ServiceName } from "../../services/platform/service.ts";
import { callApi } from "./api-client.ts";
import { ended, killStack, OWN_ENVIRONMENT, PALOMAR, type StackAddresses, startPalomar } from "./stack.ts";

export type Environment = Readonly<Record<string, string>>;

export interface CommandResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs to put before `node`, such as `ip netns exec`. */
export type Wrapper = readonly string[];

/** Runs a command as an operator does, with nothing in its environment but this. */
export async function runPalomar(
  args: readonly string[],
  env: Environment,
  wrapper: Wrapper = [],
): Promise<CommandResult> {
  const [program, ...rest] = [...wrapper, process.execPath, PALOMAR, ...args];
  const child = spawn(program!, rest, { env: { ...OWN_ENVIRONMENT, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += chunk));
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, stdout, stderr };
}

/** As `runPalomar` with `--json`; @returns the object it printed @throws when it was refused */
// biome-ignore lint/suspicious/noExplicitAny: each command prints an object of its own
export async function palomarJson(args: readonly string[], env: Environment, wrapper: Wrapper = []): Promise<any> {
  const { status, stdout, stderr } = await runPalomar([...args, "--json"], env, wrapper);
  if (status !== 0) throw new Error(`palomar ${args.join(" ")}: status ${status}: ${stderr}`);
  return JSON.parse(stdout);
}

/** Services that run in a process group of their own. */
export interface RunningServices {
  readonly addresses: StackAddresses;
  readonly process: ChildProcess;
  readonly output: () => string;
  stop(): Promise<number | null>;
  /** `kill -9` of all of it. */
  kill(): Promise<unknown>;
}

/** `palomar start <services…>`, on free ports unless the environment says where; no names: all of them. */
export async function startServices(
  services: readonly ServiceName[],
  env: Environment & { readonly PALOMAR_DATA_DIR: string },
  wrapper: Wrapper = [],
): Promise<RunningServices> {
  const started = await startPalomar(services, env, wrapper);
  return {
    addresses: started.addresses,
    process: started.process,
    output: started.printed,
    stop: () => {
      started.process.kill("SIGTERM");
      return ended(started.process);
    },
    kill: () => killStack(started.process),
  };
}

/** A reseller, a company and an instance, as an operator makes them. */
export interface Accounts {
  readonly reseller: { readonly reseller_id: string; readonly key: string };
  readonly instance: { readonly name: string; readonly key: string };
}

export async function addAccounts(env: Environment, name = "acme", wrapper: Wrapper = []): Promise<Accounts> {
  const reseller = await palomarJson(["reseller", "add", name, "--name", name], env, wrapper);
  const host = `${name}.mail.test`;
  const instance = await palomarJson(
    ["instance", "add", name, "--host", host, "--domain", `${name}.test`],
    env,
    wrapper,
  );
  return { reseller, instance };
}

/** Calls the DNS API for the reseller. */
export function dnsApiOf(url: string, { reseller }: Accounts) {
  const headers = { Authorization: reseller.key, Reseller: reseller.reseller_id };
  return (method: string, path: string, body?: unknown) => callApi(method, `${url}/api/v1${path}`, headers, body);
}

/** Calls the mail API for the instance. */
export function mailApiOf(url: string, { instance }: Accounts) {
  return (method: string, path: string, body?: unknown) =>
    callApi(method, `${url}/v1${path}`, { Authorization: instance.key }, body);
}

/** Creates the company that zones belong to; its `crm_id` is `company`. */
export async function addCompany(dnsApi: ReturnType<typeof dnsApiOf>): Promise<void> {
  const made = await dnsApi("POST", "/company", { crm_id: "company", name: "Company", apikey: "company-api-key-0001" });
  if (made.status !== 200) throw new Error(`the company was refused: ${JSON.stringify(made.body)}`);
}

export function zoneBody(domain: string) {
  return {
    crm_id: "company",
    mname: `ns.${domain}`,
    rname: `root.${domain}`,
    refresh: 7200,
    retry: 900,
    expire: 1_209_600,
    minimum: 300,
    ttl: 3600,
    serial_type: "numeric",
  };
}

/** Creates a campaign that sends from this address; @returns its `numid` */
export async function addCampaign(mailApi: ReturnType<typeof mailApiOf>, remitente: string): Promise<number> {
  const made = await mailApi("POST", "/campania/", {
    tipo: "api",
    nombre: "news",
    remitente,
    remitente_nombre: "News",
    asunto: "Hello",
    url: "http://www.acme.test/",
    charset: "utf8",
    desusc: "no",
  });
  if (made.status !== 200) throw new Error(`the campaign was refused: ${JSON.stringify(made.body)}`);
  return made.body.numid;
}

/** Sends one message to each address. */
export function sendTo(mailApi: ReturnType<typeof mailApiOf>, numid: number, emails: readonly string[]) {
  return mailApi("POST", "/envio/send_many_inline/", {
    campana_id: numid,
    email: true,
    contactos: emails.map((email) => ({ email })),
    html: "<p>Hello XYZEMAILXYZ</p>",
  });
}
