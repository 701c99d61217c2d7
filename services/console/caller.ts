import type { Delegation } from "../core/delegation-token.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Sharer } from "../platform/http/endpoint.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ConsoleScope } from "../store/console/console-scope.ts";
import type { User, UserRole } from "../store/console/users.ts";
import { findCompanyId } from "../store/dns/console-zones.ts";
import { findReseller, type Reseller } from "../store/dns/resellers.ts";
import type { ZoneScope } from "../store/dns/zones.ts";
import { findInstanceByName, type Instance } from "../store/mail/instances/instances.ts";
import { refuseAway } from "../store/mail/machines.ts";
import { problem } from "./problems.ts";

/** Who calls the console's API, and how it is known. */
export interface AdminCaller extends User {
  readonly userId: number;
  readonly hasTotp: boolean;
  /** Null of a caller that gave login and password with the request (HTTP Basic). */
  readonly session: {
    readonly id: number;
    /** What a request that changes something must carry as X-CSRF-Token. */
    readonly csrf: string;
    /** Whether this one does. */
    readonly csrfGiven: boolean;
  } | null;
}

type DnsDelegation = Delegation & { readonly audience: "dns" };

/** Who may use an area of the API at all; an operator always may. */
export function areaOf(...roles: readonly UserRole[]): (caller: AdminCaller) => Refusal | undefined {
  return ({ role }) => (role === "operator" || roles.includes(role) ? undefined : problem("not-yours"));
}

/** The reseller of a path, when the caller is the operator or that reseller; others are told what strangers are. */
export async function visibleReseller(db: Db, caller: User, id: string): Promise<Result<Reseller, Refusal>> {
  const may = caller.role === "operator" || (caller.role === "reseller" && caller.scope === id);
  const reseller = may ? await findReseller(db, id) : undefined;
  return reseller ? ok(reseller) : refuse(problem("no-such-reseller"));
}

/** The instance of a path, when the caller is the operator or that instance's user; others are told what strangers are. */
export async function visibleInstance(db: Db, caller: User, name: string): Promise<Result<Instance, Refusal>> {
  const may = caller.role === "operator" || (caller.role === "instance" && caller.scope === name);
  const instance = may ? await findInstanceByName(db, name) : undefined;
  if (!instance) return refuse(problem("no-such-instance"));
  refuseAway(db, [instance.id]);
  return ok(instance);
}

/** Who heavy work about an instance is shared out by: all of its own users are one, and each operator is one. */
export function sharerOf({ role, login }: User, instanceId: number): string {
  return role === "operator" ? `operator ${login}` : `instance ${instanceId}`;
}

/** The same about a reseller's zones: all users of a company are one, and so are all of the reseller's own. */
export function zoneSharerOf({ role, login, scope }: User, resellerId: string): Sharer {
  if (role === "operator") return { key: `operator ${login}`, group: `operator ${login}` };
  return { key: `${role} ${scope}`, group: `reseller ${resellerId}` };
}

/** Whose zones a caller manages: all of a reseller's, or one company's. */
export interface ZoneManager {
  readonly resellerId: string;
  readonly crmId?: string;
}

/** The zones of a path's reseller that are the caller's to manage, if any are. */
export async function visibleZones(db: Db, caller: User, resellerId: string): Promise<Result<ZoneManager, Refusal>> {
  const [own, crmId] = (caller.scope ?? "").split("/");
  if (caller.role === "company" && own === resellerId && crmId !== undefined) return ok({ resellerId, crmId });
  const reseller = await visibleReseller(db, caller, resellerId);
  return reseller.ok ? ok({ resellerId }) : reseller;
}

/** The same zones as the store knows them; undefined when the company is gone. */
export async function scopeOfManager(db: Db, { resellerId, crmId }: ZoneManager): Promise<ZoneScope | undefined> {
  if (crmId === undefined) return { resellerId };
  const companyId = await findCompanyId(db, resellerId, crmId);
  return companyId === undefined ? undefined : { resellerId, companyId };
}

/** All zones that a caller of the DNS area may see: an operator's are everybody's. */
export async function ownZones(db: Db, { role, scope }: User): Promise<ZoneScope | undefined> {
  if (role === "operator") return {};
  const [resellerId = "", crmId] = (scope ?? "").split("/");
  return scopeOfManager(db, { resellerId, ...(crmId === undefined ? {} : { crmId }) });
}

/** What the DNS API is to let a caller do with a reseller's zones. */
export async function delegateDns(db: Db, caller: User, resellerId: string): Promise<Result<DnsDelegation, Refusal>> {
  const zones = await visibleZones(db, caller, resellerId);
  return zones.ok ? ok({ audience: "dns", login: caller.login, ...zones.value }) : zones;
}

/** Whose something is that a request is about: what its path names, else the caller's own. */
export function scopeOfRequest(caller: User, path: string, params: Readonly<Record<string, unknown>>): ConsoleScope {
  const own = { role: caller.role, scope: caller.scope };
  if (caller.role !== "operator") return own;
  const [, area, parameter] = path.split("/");
  const named = parameter?.startsWith(":") ? params[parameter.slice(1)] : undefined;
  if (typeof named !== "string") return own;
  if (area === "resellers" || area === "dns") return { role: "reseller", scope: named };
  return area === "instances" || area === "mail" ? { role: "instance", scope: named } : own;
}
