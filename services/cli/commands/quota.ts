import type { Command } from "commander";
import { type QuotaName, readQuotaSetting } from "../../core/dns/quotas.ts";
import { quotaNamesOf } from "../../platform/config/quotas.ts";
import { findQuotaOwner, type QuotaState, readQuotas, setLimits } from "../../store/dns/quota-settings.ts";
import { gather } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

interface QuotaOptions {
  readonly set: readonly string[];
}

/** `palomar company`: what companies of a reseller may have. */
export function registerCompanyCommand(program: Command, runtime: CommandRuntime): void {
  const company = program.command("company").description("companies of resellers");
  const quota = company.command("quota").argument("<reseller_id>").argument("<crm_id>");
  withSettings(quota)
    .description("show what a company may have and has, or change what it may")
    .action((resellerId: string, crmId: string, { set }: QuotaOptions) =>
      showOrSet(runtime, { resellerId, crmId }, set),
    );
}

/** `palomar reseller quota`. */
export function registerResellerQuota(reseller: Command, runtime: CommandRuntime): void {
  withSettings(reseller.command("quota").argument("<reseller_id>"))
    .description("show what a reseller may have and has, or change what it may")
    .action((resellerId: string, { set }: QuotaOptions) => showOrSet(runtime, { resellerId }, set));
}

function withSettings(command: Command): Command {
  return command.option("--set <name=value>", "allow so much; `default` as value; repeatable", gather, []);
}

async function showOrSet(
  runtime: CommandRuntime,
  { resellerId, crmId }: { readonly resellerId: string; readonly crmId?: string },
  settings: readonly string[],
): Promise<void> {
  const changes = readSettings(runtime, quotaNamesOf(crmId === undefined ? "reseller" : "company"), settings);
  const quotas = await runtime.withDatabase(async ({ db }) => {
    const owner = await findQuotaOwner(db, resellerId, crmId);
    if (!owner) return undefined;
    if (settings.length > 0) await setLimits(db, owner, changes);
    return readQuotas(db, owner);
  });
  if (!quotas) {
    const whose = crmId === undefined ? `reseller ${resellerId}` : `company ${crmId} of reseller ${resellerId}`;
    runtime.refuse(`${whose} does not exist`);
  }
  const shown = quotas.map(({ name, allowed, used, isDefault }) => ({ name, allowed, used, default: isDefault }));
  const owner = { reseller_id: resellerId, ...(crmId === undefined ? {} : { crm_id: crmId }) };
  runtime.print({ ...owner, quotas: shown }, quotas.map(describe).join("\n"));
}

function readSettings(
  runtime: CommandRuntime,
  names: readonly QuotaName[],
  settings: readonly string[],
): Partial<Record<QuotaName, number | null>> {
  const changes: Partial<Record<QuotaName, number | null>> = {};
  for (const text of settings) {
    const setting = readQuotaSetting(text, names);
    if (!setting) {
      return runtime.misused(
        `--set ${text}: give name=value, a whole number or default; names are ${names.join(", ")}`,
      );
    }
    changes[setting.name] = setting.value;
  }
  return changes;
}

function describe({ name, allowed, used, isDefault }: QuotaState): string {
  const most = allowed === null ? "no bound" : String(allowed);
  return `${name}\t${used ?? "-"}\t${most}${isDefault ? "" : "\tset"}`;
}
