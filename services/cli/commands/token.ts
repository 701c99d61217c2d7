import { type Command, Option } from "commander";
import { readPolicy } from "../../core/dns/access-policy.ts";
import { POLICY_VERBS, type PolicyVerb } from "../../core/dns/policy-verbs.ts";
import type { QuotaHolder } from "../../core/dns/quotas.ts";
import { TSIG_ALGORITHMS } from "../../core/dns/tsig.ts";
import { type MadeToken, makeToken, removeToken, rotateToken } from "../../operations/dns/tokens.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findQuotaOwner, type QuotaOwner } from "../../store/dns/quota-settings.ts";
import { type ListedToken, tokenPages } from "../../store/dns/tokens.ts";
import { gather, noteEndedGrace, orRefuse, readGrace } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";

interface Whose {
  readonly company?: string;
}

interface AddOptions extends Whose {
  readonly access: "read" | "write";
  readonly expires?: string;
  readonly network?: readonly string[];
  readonly zone?: readonly string[];
  readonly owner?: readonly string[];
  readonly type?: readonly string[];
  readonly verb?: readonly PolicyVerb[];
  readonly tsig?: string;
  readonly api: boolean;
}

/** `palomar token`: what programs of resellers and companies call with instead of their keys. */
export function registerTokenCommand(program: Command, runtime: CommandRuntime): void {
  const token = program.command("token").description("tokens of resellers and companies, held to a policy");
  registerAdd(token, runtime);
  registerList(token, runtime);
  registerRemove(token, runtime);
  registerRotate(token, runtime);
}

function registerAdd(token: Command, runtime: CommandRuntime): void {
  withOwner(token.command("add").argument("<reseller_id>").argument("<name>"))
    .addOption(new Option("--access <access>", "what it is for").choices(["read", "write"]).default("write"))
    .option("--expires <time>", "until when it is good, such as 2030-01-31T12:00:00Z; for ever when not given")
    .option("--network <cidr>", "a source that it may be used from; repeatable", gather)
    .option("--zone <pattern>", "a zone: exact, * for one label, ** for any number; repeatable", gather)
    .option("--owner <pattern>", "names that own records, such as _acme-challenge.**; repeatable", gather)
    .option("--type <type>", "a type of records; repeatable", gather)
    .addOption(
      new Option(
        "--verb <verb>",
        "what it may do; repeatable; those of records when not given; transfer sees ACLs, and transfers no zone",
      )
        .choices(POLICY_VERBS)
        .argParser((value: string, gathered: readonly string[] = []) => readVerb(runtime, value, gathered)),
    )
    .addOption(new Option("--tsig <algorithm>", "with a TSIG key of the same policy").choices(TSIG_ALGORITHMS))
    .option("--no-api", "a TSIG key alone, which does not open the API")
    .description("make a token; prints its secrets, once")
    .action(async (resellerId: string, name: string, options: AddOptions) => {
      const { access, network: networks, zone: zones, owner: names, type: types, verb: verbs } = options;
      const policy = { access, networks, zones, names, types, verbs };
      if (!options.api && options.tsig === undefined) runtime.misused("--no-api needs --tsig <algorithm>");
      orRefuse(runtime, readPolicy(policy));
      const made = await runtime.withDatabase(async ({ db, keyRing }) => {
        const { owner, holder } = await findOwner(runtime, db, resellerId, options);
        const maker = { owner, holder, actor: COMMAND_ACTOR, login: null };
        const wanted = { name, policy, expires: options.expires, tsig: options.tsig, api: options.api };
        return makeToken({ db, keyRing }, maker, wanted, new Date());
      });
      showMade(runtime, orRefuse(runtime, made));
    });
}

function registerList(token: Command, runtime: CommandRuntime): void {
  withOwner(token.command("list").argument("<reseller_id>"))
    .description("list tokens: a reseller's with those of its companies, or one company's")
    .action(async (resellerId: string, options: Whose) => {
      const tokens = await runtime.withDatabase(async ({ db }) => {
        const { owner } = await findOwner(runtime, db, resellerId, options);
        const listed: ListedToken[] = [];
        for await (const page of tokenPages(db, owner)) listed.push(...page);
        return listed;
      });
      runtime.print(tokens.map(tokenJson), tokens.map(describe).join("\n"));
    });
}

function registerRemove(token: Command, runtime: CommandRuntime): void {
  withOwner(token.command("remove").argument("<reseller_id>").argument("<name>"))
    .description("take a token away, and its TSIG key with it")
    .action(async (resellerId: string, name: string, options: Whose) => {
      const removed = await runtime.withDatabase(async ({ db }) => {
        const { owner } = await findOwner(runtime, db, resellerId, options);
        return removeToken(db, owner, name);
      });
      orRefuse(runtime, removed);
      runtime.print({ name, removed: true }, `${name} removed`);
    });
}

function registerRotate(token: Command, runtime: CommandRuntime): void {
  withOwner(token.command("rotate").argument("<reseller_id>").argument("<name>"))
    .option(
      "--grace <time>",
      "how long the old token is accepted as well, such as 24h; not at all when not given; tokens before it end at once",
    )
    .description("replace a token's secrets; prints the new ones, once; a TSIG secret is good no more at once")
    .action(async (resellerId: string, name: string, options: Whose & { readonly grace?: string }) => {
      const now = new Date();
      const until = readGrace(runtime, options.grace, now);
      const made = await runtime.withDatabase(async ({ db, keyRing }) => {
        const { owner } = await findOwner(runtime, db, resellerId, options);
        return rotateToken({ db, keyRing }, owner, name, until);
      });
      const rotated = orRefuse(runtime, made);
      showMade(runtime, rotated);
      noteEndedGrace(runtime, rotated, now);
    });
}

function withOwner(command: Command): Command {
  return command.option("--company <crm_id>", "the company whose it is; the reseller's own when not given");
}

async function findOwner(
  runtime: CommandRuntime,
  db: Db,
  resellerId: string,
  { company }: Whose,
): Promise<{ readonly owner: QuotaOwner; readonly holder: QuotaHolder }> {
  const owner = await findQuotaOwner(db, resellerId, company);
  if (owner) return { owner, holder: company === undefined ? { reseller: resellerId } : { company } };
  const whose = company === undefined ? `reseller ${resellerId}` : `company ${company} of reseller ${resellerId}`;
  return runtime.refuse(`${whose} does not exist`);
}

function readVerb(runtime: CommandRuntime, value: string, gathered: readonly string[]): readonly string[] {
  if (!(POLICY_VERBS as readonly string[]).includes(value)) {
    runtime.misused(`--verb ${value}: verbs are ${POLICY_VERBS.join(", ")}`);
  }
  return [...gathered, value];
}

function showMade(runtime: CommandRuntime, { listed, secret, tsig }: MadeToken): void {
  const key = tsig && { name: tsig.name, algorithm: tsig.algorithm, secret: tsig.secret.toString("base64") };
  const words = [listed.name, secret, key && `${key.algorithm}:${key.name}:${key.secret}`];
  runtime.print({ ...tokenJson(listed), token: secret, tsig: key }, words.filter((word) => word !== null).join(" "));
}

function tokenJson(token: ListedToken) {
  return {
    ...{ name: token.name, crm_id: token.crmId, ...token.policy, api: token.hasSecret, tsig: token.tsig },
    ...{ made_by: token.madeBy, created: token.createdAt, expires: token.expiresAt },
    ...{ last_used: token.lastUsedAt, last_used_from: token.lastUsedFrom },
  };
}

function describe({ name, crmId, policy, expiresAt, lastUsedAt }: ListedToken): string {
  const { zones, names, types, verbs } = policy;
  const parts = [zones, names, types, verbs].map((part) => (part === null ? "all" : part?.join(",") || "read"));
  return [name, crmId ?? "-", ...parts, expiresAt?.toISOString() ?? "-", lastUsedAt?.toISOString() ?? "-"].join("\t");
}
