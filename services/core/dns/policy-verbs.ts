/** What may be done to records, judged by RRset: what only grows is created, what only shrinks deleted, else modified. */
export const RECORD_VERBS = ["create", "modify", "delete"] as const;

/** What is done to whole zones. `zone_delete` is taking off the air as well; `transfer` is about who may transfer. */
export const ZONE_VERBS = ["zone_create", "zone_delete", "sign", "transfer"] as const;

export const POLICY_VERBS = [...RECORD_VERBS, ...ZONE_VERBS] as const;
export type RecordVerb = (typeof RECORD_VERBS)[number];
export type PolicyVerb = (typeof POLICY_VERBS)[number];
