import { readSenderDomain } from "../../core/customer-input.ts";
import type { SetupItem } from "../../core/mail/domain-setup/domain-setup.ts";
import { stsEnd } from "../../core/mail/domain-setup/mta-sts.ts";
import { domainConnectTemplate, zoneFileSnippet } from "../../core/mail/domain-setup/setup-files.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { FurtherKey } from "../../store/mail/instances/dkim-keys.ts";
import type { DomainUpkeep, UpkeepSettings } from "../../store/mail/instances/domain-upkeep.ts";
import type { DomainToSetUp, ProposedItem } from "./domain-setup.ts";

/** The settings of a domain as APIs and commands write them; what is absent stays. */
export interface SettingsGiven {
  readonly mta_sts?: "off" | "testing" | "enforce" | undefined;
  readonly tls_reports?: boolean | undefined;
  readonly tracking_host?: string | null | undefined;
  readonly rotate_days?: number | null | undefined;
}

export function readSettings(upkeep: DomainUpkeep, given: SettingsGiven, now: Date): Result<UpkeepSettings, Refusal> {
  const { domain } = upkeep;
  const host = given.tracking_host == null ? ok(given.tracking_host) : readTrackingHost(domain, given.tracking_host);
  if (!host.ok) return host;
  return ok({
    ...(given.mta_sts === undefined ? {} : stsSettings(upkeep, given.mta_sts, now)),
    ...(given.tls_reports === undefined ? {} : { tlsReports: given.tls_reports }),
    ...(host.value === undefined ? {} : { trackingHost: host.value }),
    ...(given.rotate_days === undefined ? {} : { rotateDays: given.rotate_days }),
  });
}

function stsSettings(
  { stsMode }: DomainUpkeep,
  wanted: NonNullable<SettingsGiven["mta_sts"]>,
  now: Date,
): UpkeepSettings {
  if (wanted !== "off") return { stsMode: wanted, stsEndsAt: null };
  return { stsMode: null, ...(stsMode !== null && { stsEndsAt: stsEnd(now) }) };
}

/** A name below the domain: others' names are not this domain's to lead anywhere. */
function readTrackingHost(domain: string, text: string): Result<string, Refusal> {
  const host = readSenderDomain(text);
  if (!host.ok) return refuse(invalidField("tracking_host", "no-host-name", { text }));
  const isOwn = host.value.endsWith(`.${domain}`) && host.value !== `mta-sts.${domain}`;
  return isOwn ? host : refuse(invalidField("tracking_host", "host-below-domain", { domain }));
}

/** A domain's set-up as APIs and commands show it. */
export function showUpkeep({ own, upkeep }: DomainToSetUp, keys: readonly FurtherKey[]) {
  const name = (selector: string) => `${selector}._domainkey.${own.domain}`;
  return {
    domain: own.domain,
    mta_sts: upkeep.stsMode ?? ("off" as const),
    mta_sts_ends: upkeep.stsEndsAt?.toISOString() ?? null,
    tls_reports: upkeep.tlsReports,
    tracking_host: upkeep.trackingHost,
    rotate_days: upkeep.rotateDays,
    agreed_by: upkeep.agreedBy,
    checked_at: upkeep.checkedAt?.toISOString() ?? null,
    checks: upkeep.checks?.map(showItem) ?? null,
    keys: [
      ...[{ selector: own.dkimSelector, name: name(own.dkimSelector), algorithm: "rsa" as const }].map((key) => ({
        ...key,
        ...{ state: "signing" as const, seen_since: null, retired_at: null },
      })),
      ...keys.map(({ selector, algorithm, state, seenSince, retiredAt }) => ({
        ...{ selector, name: name(selector), algorithm, state },
        seen_since: seenSince?.toISOString() ?? null,
        retired_at: retiredAt?.toISOString() ?? null,
      })),
    ],
  };
}

export function showItem({ part, name, type, action, before, after, fault, cost }: SetupItem) {
  return {
    ...{ part, name, type, action },
    before: before ?? null,
    after: after ?? null,
    fault: fault ?? null,
    spf_lookups: cost?.lookups ?? null,
  };
}

export function showProposedItem(item: ProposedItem) {
  return { ...showItem(item), zone: item.zone ?? null };
}

/** What has to be done where the records are not written from here, as files to paste. */
export function filesToPaste(bounceDomain: string, domain: string, items: readonly ProposedItem[]) {
  const elsewhere = items.filter(({ zone }) => zone === undefined);
  return {
    domain_connect: domainConnectTemplate({ providerId: bounceDomain, domain }, elsewhere),
    zone_file: zoneFileSnippet(elsewhere),
  };
}
