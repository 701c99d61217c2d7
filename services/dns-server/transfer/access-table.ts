import { type AddressBlock, readAddressBlock } from "../../core/dns/address-block.ts";
import { type DomainName, nameFromStoredText, nameFromStoredWire } from "../../core/dns/name.ts";
import type { TsigKey } from "../../core/dns/tsig.ts";
import { groupBy } from "../../core/groups.ts";
import { splitHostPort } from "../../platform/config/config-values.ts";
import type { RestrictedZone, TransferAccess, TransferGrant } from "../../store/dns/transfer-access.ts";
import type { Client } from "../message/client.ts";

/** A zone whose transfer somebody asks for, and whose ACLs are for it. */
export interface GuardedZone {
  readonly apex: DomainName;
  readonly resellerIds: readonly string[];
}

/** A server that is to be told of a zone's changes. */
export interface NotifyTarget {
  readonly host: string;
  readonly port: number;
  /** Signs what it is told. */
  readonly key: TsigKey | undefined;
}

/**
 * Who may transfer what, arranged for asking. Immutable: a change makes a new table. What of it cannot be read lets nobody in,
 * and takes nothing else with it: it may be one reseller's among many.
 */
export class AccessTable {
  readonly version: number;
  /** What cannot be read, and why, a line each. */
  readonly unreadable: readonly string[];
  readonly #keys: ReadonlyMap<string, TsigKey>;
  readonly #grants: ReadonlyMap<string, readonly Grant[]>;
  readonly #restricted: ReadonlyMap<string, readonly string[]>;

  constructor({ version, keys, unopenedKeys, grants, restricted }: TransferAccess) {
    const unreadable = unopenedKeys.map((name) => `TSIG key ${name}: its secret cannot be opened`);
    const orNote = <Row, Read>(rows: readonly Row[], what: (row: Row) => string, read: (row: Row) => Read): Read[] =>
      rows.flatMap((row) => {
        try {
          return [read(row)];
        } catch (error) {
          unreadable.push(`${what(row)}: ${(error as Error).message}`);
          return [];
        }
      });
    this.version = version;
    this.#keys = new Map(orNote(keys, ({ name }) => `TSIG key ${name}`, tsigKey).map((key) => [key.name.key, key]));
    const readGrants = orNote(grants, nameOfGrant, (grant) => this.#grantOf(grant));
    this.#grants = groupBy(readGrants, ({ resellerId }) => resellerId);
    // Nobody can ask for a zone whose name cannot be read.
    const guarded = orNote(restricted, nameOfRestricted, (zone) => [nameFromStoredWire(zone.apex).key, zone] as const);
    this.#restricted = new Map(guarded.map(([apex, { resellerIds }]) => [apex, resellerIds]));
    this.unreadable = unreadable;
  }

  /** The deployment's TSIG key of a name. */
  keyNamed(name: DomainName): TsigKey | undefined {
    return this.#keys.get(name.key);
  }

  /** The resellers whose ACLs decide on a feed or a catalog; undefined for a zone that is neither. */
  guardsOf(apex: DomainName): readonly string[] | undefined {
    return this.#restricted.get(apex.key);
  }

  /**
   * A source that an ACL of the zone lists may transfer it, and so may any holder of the ACL's key.
   * @returns the id of the reseller whose ACL allows it; undefined when none does
   */
  grantorOf(zone: GuardedZone, client: Client, key: TsigKey | undefined): string | undefined {
    const grants = this.#grantsFor(zone);
    // Whoever signs is not taken for somebody of another reseller whose blocks have its address as well.
    const ofKey = key && grants.find((grant) => grant.key?.name.key === key.name.key);
    return (ofKey ?? grants.find(({ blocks }) => blocks.some((block) => client.isIn(block))))?.resellerId;
  }

  /** The servers to tell of a zone's changes, each once for each key. */
  notifyTargets(zone: GuardedZone): NotifyTarget[] {
    const targets = new Map<string, NotifyTarget>();
    for (const { notify, key } of this.#grantsFor(zone)) {
      for (const { host, port } of notify) targets.set(`${host} ${port} ${key?.name.key}`, { host, port, key });
    }
    return [...targets.values()];
  }

  #grantsFor({ apex, resellerIds }: GuardedZone): Grant[] {
    return resellerIds
      .flatMap((id) => this.#grants.get(id) ?? [])
      .filter(({ zones }) => zones === null || zones.has(apex.key));
  }

  /** @throws when a part of it cannot be read */
  #grantOf({ resellerId, blocks, keyName, zones, notify }: TransferGrant): Grant {
    const key = keyName === null ? undefined : this.#keys.get(nameFromStoredText(keyName).key);
    if (keyName !== null && key === undefined) throw new Error(`its TSIG key ${keyName} cannot be read`);
    return {
      resellerId,
      blocks: blocks.map(storedBlock),
      key,
      zones: zones && new Set(zones.map((name) => nameFromStoredText(name).key)),
      notify: notify.map(splitHostPort),
    };
  }
}

interface Grant {
  readonly resellerId: string;
  readonly blocks: readonly AddressBlock[];
  readonly key: TsigKey | undefined;
  /** Keys of apexes. */
  readonly zones: ReadonlySet<string> | null;
  readonly notify: readonly { readonly host: string; readonly port: number }[];
}

function tsigKey(stored: TransferAccess["keys"][number]): TsigKey {
  return { name: nameFromStoredText(stored.name), algorithm: stored.algorithm, secret: stored.secret };
}

const nameOfGrant = ({ name, resellerId }: TransferGrant) => `ACL ${name} of reseller ${resellerId}`;

const nameOfRestricted = ({ apex }: RestrictedZone) => `the feed or catalog named ${Buffer.from(apex).toString("hex")}`;

function storedBlock(text: string): AddressBlock {
  const block = readAddressBlock(text);
  if (!block.ok) throw new Error(block.error.message);
  return block.value;
}
