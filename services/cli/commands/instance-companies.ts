import type { Command } from "commander";
import { findCompanyId } from "../../store/dns/console-zones.ts";
import {
  type CompanyOfInstance,
  grantCompany,
  listCompaniesOfInstance,
  revokeCompany,
} from "../../store/mail/instances/instance-companies.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";

/** `palomar instance company …`: companies whose zones its users may change, for its sender domains. */
export function registerInstanceCompanies(instance: Command, runtime: CommandRuntime): void {
  const company = instance.command("company").description("companies whose zones its users may change");
  company
    .command("list")
    .argument("<name>")
    .description("list the companies whose zones its users may change for its sender domains")
    .action((name: string) =>
      withInstance(runtime, name, async ({ db }, { id }) => {
        const companies = await listCompaniesOfInstance(db, id);
        runtime.print(
          companies.map(toJson),
          companies.map(({ resellerId, crmId }) => `${resellerId}/${crmId}`).join("\n"),
        );
      }),
    );
  company
    .command("add")
    .argument("<name>")
    .argument("<reseller/company>")
    .description("let its users change the company's zones for its sender domains")
    .action((name: string, given: string) =>
      withCompany(runtime, name, given, async (ids, { db, tell }) => {
        await grantCompany(db, { ...ids, by: COMMAND_ACTOR });
        tell();
      }),
    );
  company
    .command("remove")
    .argument("<name>")
    .argument("<reseller/company>")
    .description("let them no longer")
    .action((name: string, given: string) =>
      withCompany(runtime, name, given, async ({ instanceId, companyId }, { db, tell }) => {
        if (!(await revokeCompany(db, instanceId, companyId))) runtime.refuse(`${name} has no leave of ${given}`);
        tell();
      }),
    );
}

interface Ids {
  readonly instanceId: number;
  readonly companyId: number;
}

function withCompany(
  runtime: CommandRuntime,
  name: string,
  given: string,
  use: (ids: Ids, tools: { db: Parameters<typeof findCompanyId>[0]; tell: () => void }) => Promise<void>,
): Promise<void> {
  const [resellerId = "", crmId = ""] = given.toLowerCase().split("/");
  return withInstance(runtime, name, async ({ db }, { id }) => {
    const companyId = await findCompanyId(db, resellerId, crmId);
    if (companyId === undefined) return runtime.refuse(`there is no company ${given}`);
    const tell = () => runtime.print({ name, company: `${resellerId}/${crmId}` }, `${resellerId}/${crmId}`);
    await use({ instanceId: id, companyId }, { db, tell });
  });
}

function toJson({ resellerId, crmId, grantedBy, grantedAt }: CompanyOfInstance) {
  return { reseller_id: resellerId, crm_id: crmId, granted_by: grantedBy, granted_at: grantedAt.toISOString() };
}
