import type { Db } from "../platform/postgres/db.ts";
import type { ServiceName } from "../platform/service.ts";
import { findMissingRights, roleOf } from "../store/database-roles.ts";
import { CommandRefused } from "./command-errors.ts";

const MOST_TOLD = 3;

/**
 * Makes sure that a service can do its work in the role that asks.
 * @throws CommandRefused where it cannot: the role is another service's, or has the rights of an earlier version
 */
export async function requireRights(db: Db, service: ServiceName): Promise<void> {
  const { role, rights } = await findMissingRights(db, policyName(service));
  if (rights.length === 0) return;
  const others = rights.length > MOST_TOLD ? `, and ${rights.length - MOST_TOLD} more` : "";
  throw new CommandRefused(
    `the role ${role} lacks rights that ${service} needs: ${rights.slice(0, MOST_TOLD).join(", ")}${others}. ` +
      `DATABASE_URL has to name the service's own role (${roleOf(policyName(service))}), and after an upgrade its rights are ` +
      "brought up to date by `palomar migrate --roles <folder>` or `palomar database roles --apply`, as the owner of the tables",
  );
}

/** What config/database-roles.json calls a service: the sandbox's inbox is part of delivery. */
export function policyName(service: ServiceName): string {
  return service === "sandbox" ? "delivery" : service;
}
