import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compileDomainGroups, type DomainGroups } from "../../core/mail/address-group.ts";
import { packageFolder } from "../package-folder.ts";

/** The mailbox providers of config/domain-groups.json. */
export const domainGroups: DomainGroups = load();

function load(): DomainGroups {
  const compiled = compileDomainGroups(
    JSON.parse(readFileSync(join(packageFolder, "config", "domain-groups.json"), "utf8")),
  );
  if (!compiled.ok) throw new Error(`config/domain-groups.json: ${compiled.error}`);
  return compiled.value;
}
