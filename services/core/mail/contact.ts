import type { EventKind } from "./event-kind.ts";

/** The last thing that was done to a contact. */
export type ContactOperation = "created" | "modified" | "imported" | "invalidated" | "revalidated" | "unsubscribed";

export interface CampaignName {
  readonly numid: number;
  readonly name: string;
}

/** A contact as lists of them show it. Unset texts are empty. */
export interface ContactSummary {
  readonly id: number;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly age: number | null;
  readonly sex: string;
  readonly profession: string;
  readonly locality: string;
  readonly countryCode: string;
  readonly regionCode: string;
  readonly city: string;
  readonly device: string;
  readonly deviceSubtypeId: number | null;
  /** Number of the mailbox provider (config/domain-groups.json); 0 for all others. */
  readonly domainGroupId: number;
  readonly invalid: boolean;
  readonly lastOperation: ContactOperation;
  readonly updatedAt: Date;
  /** By name. */
  readonly groups: readonly string[];
  /** Campaigns that the contact has events of. */
  readonly campaigns: readonly CampaignName[];
  readonly unsubscribedCampaigns: readonly CampaignName[];
}

/** Everything about a contact but its events. */
export interface Contact extends ContactSummary {
  /** Custom fields by name, without the XYZ wrapping. */
  readonly fields: Readonly<Record<string, string>>;
}

/** An event in a contact's history. */
export interface ContactEvent {
  readonly at: Date;
  readonly kind: EventKind;
  readonly machine: boolean;
  /** Empty for an event of no campaign. */
  readonly campaignName: string;
}
