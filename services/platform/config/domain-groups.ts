import { compileDomainGroups, type DomainGroups } from "../../core/mail/address-group.ts";
import { readConfigFile } from "./config-file.ts";

/** The mailbox providers of config/domain-groups.json. */
export const domainGroups: DomainGroups = readConfigFile("domain-groups.json", compileDomainGroups);
