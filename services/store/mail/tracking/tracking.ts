import { builtInValues, countPlaces, type PersonalValues, parseTemplate } from "../../../core/mail/personalise.ts";
import type { TrackedHtml } from "../../../core/mail/tracking-html.ts";
import { type Db, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { globalValues } from "../instances/globals.ts";
import { foundOnPresent, onPresent } from "../machines.ts";

/** A link of a message and where it leads. */
export interface TrackedLink {
  readonly serial: number;
  readonly messageId: number;
  readonly instanceId: number;
  /** LinkId of core/mail/tracking-html.ts. */
  readonly link: string;
  /** As written, personal tags included. */
  readonly target: string;
}

/** Makes the links of a message known; before its first copy leaves, and as often as one likes. */
export async function saveTrackedLinks(
  db: Db,
  message: { readonly id: number; readonly instanceId: number },
  { links, hidden }: Pick<TrackedHtml, "links" | "hidden">,
): Promise<void> {
  const rows = [...links].map(([link, target]) => [message.instanceId, message.id, link, target, hidden.has(link)]);
  for (let from = 0; from < rows.length; from += LINKS_A_STATEMENT) {
    const values = new StatementValues();
    await queryRows(
      db,
      `insert into tracked_links (instance_id, message_id, link, target, hidden)
       values ${values.addRows(rows.slice(from, from + LINKS_A_STATEMENT))} on conflict do nothing`,
      values.all,
    );
  }
}

/** A statement has at most 65,535 values. */
const LINKS_A_STATEMENT = 1_000;

/** @throws MachineAway where it is not found and a machine is away */
export async function findTrackedLink(db: Db, messageId: number, link: string): Promise<TrackedLink | undefined> {
  const condition = `l.message_id = $1 and l.link = $2 and ${onPresent(db, "l.instance_id")}`;
  const [found] = await selectLinks(db, condition, [messageId, link]);
  return foundOnPresent(db, found);
}

/** A link that became known, and how long its target is. */
export interface LinkSize {
  readonly serial: number;
  readonly octets: number;
}

/** Links that became known after one of them, in that order. */
export async function listLinkSizes(db: Db, after: number, limit: number): Promise<LinkSize[]> {
  return selectSizes(db, "l.serial > $1", "l.serial limit $2", [after, limit]);
}

/** The links that became known last, the last one first. */
export async function listLatestLinkSizes(db: Db, limit: number): Promise<LinkSize[]> {
  return selectSizes(db, "true", "l.serial desc limit $1", [limit]);
}

/** Long targets lie beside their rows: their lengths are known without them. */
async function selectSizes(db: Db, condition: string, order: string, values: readonly number[]): Promise<LinkSize[]> {
  return queryRows(
    db,
    `select l.serial, octet_length(l.target) as octets from tracked_links l
     where ${condition} and ${onPresent(db, "l.instance_id")} order by ${order}`,
    values,
  );
}

/** In the order in which they became known, but for those that are gone. */
export async function readTrackedLinks(db: Db, serials: readonly number[]): Promise<TrackedLink[]> {
  const condition = `l.serial = any($1::bigint[]) and ${onPresent(db, "l.instance_id")}`;
  return selectLinks(db, condition, [serials]);
}

async function selectLinks(db: Db, condition: string, values: readonly unknown[]): Promise<TrackedLink[]> {
  return queryRows(
    db,
    `select l.serial, l.message_id as "messageId", l.instance_id as "instanceId", l.link, l.target
     from tracked_links l where ${condition} order by l.serial`,
    values,
  );
}

/** The instances whose clicked links carry a conversion token on. */
export async function listConversionInstances(db: Db): Promise<Set<number>> {
  return new Set<number>(await db("instances").where({ conversions: true }).pluck("id"));
}

/**
 * The values that the target of a link of this delivery shows of its contact, as it is now. A copy shows what the recipient's shows.
 * Of a contact that is gone nothing is known.
 */
export async function findPersonalValues(db: Db, deliveryId: number, target: string): Promise<PersonalValues> {
  const [found] = await queryRows<{ instance_id: number }>(
    db,
    `select instance_id from deliveries where id = $1 and ${onPresent(db)}`,
    [deliveryId],
  );
  const own = foundOnPresent(db, found);
  const [row] =
    own === undefined
      ? []
      : await queryRows<ProfileRow>(
          db,
          `select contacts.* from deliveries own
     join partitions on partitions.instance_id = $2 and partitions.id = own.partition_id
     left join lateral (
       select d.contact_id from partitions p
       join deliveries d on d.instance_id = $2 and d.partition_id = p.id
       where p.instance_id = $2 and p.message_id = partitions.message_id and d.role = 'to' and own.role <> 'to' limit 1
     ) as addressee on true
     join contacts on contacts.instance_id = $2 and contacts.id = coalesce(addressee.contact_id, own.contact_id)
     where own.instance_id = $2 and own.id = $1`,
          [deliveryId, own.instance_id],
        );
  const nothing: ReadonlyMap<string, string> = new Map();
  if (row === undefined) return { system: nothing, customFields: nothing, builtIns: nothing, globals: nothing };
  return {
    system: nothing,
    customFields: new Map(Object.entries(row.fields)),
    builtIns: builtInValues({ ...row, firstName: row.first_name, lastName: row.last_name }),
    globals: await globalValues(db, row.instance_id, countPlaces([parseTemplate(target)]).keys()),
  };
}

interface ProfileRow {
  instance_id: number;
  email: string;
  first_name: string;
  last_name: string;
  age: number | null;
  sex: string;
  profession: string;
  locality: string;
  fields: Record<string, string>;
}
