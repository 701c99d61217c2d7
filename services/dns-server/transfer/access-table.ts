import { type DomainName, nameFromStoredWire, parseDomainName } from "../../core/dns/name.ts";
import type { TsigKey } from "../../core/dns/tsig.ts";
import { splitHostPort } from "../../platform/config/config-values.ts";
import type { TransferAccess, TransferGrant } from "../../store/dns/transfer-access.ts";
import { type AddressBlock, parseAddressBlock } from "../message/address-block.ts";
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

/** Who may transfer what, arranged for asking. Immutable: a change makes a new table. */
export class AccessTable {
  readonly version: number;
  readonly #keys: ReadonlyMap<string, TsigKey>;
  readonly #grants: ReadonlyMap<string, readonly Grant[]>;
  readonly #restricted: ReadonlyMap<string, readonly string[]>;

  constructor({ version, keys, grants, restricted }: TransferAccess) {
    this.version = version;
    this.#keys = new Map(keys.map((key) => tsigKey(key)).map((key) => [key.name.key, key]));
    this.#grants = groupGrants(grants.map((grant) => this.#grantOf(grant)));
    this.#restricted = new Map(restricted.map(({ apex, resellerIds }) => [nameFromStoredWire(apex).key, resellerIds]));
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
    return (ofKey ?? grants.find(({ blocks }) => blocks.some((block) => block.contains(client))))?.resellerId;
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

  #grantOf({ resellerId, blocks, keyName, zones, notify }: TransferGrant): Grant {
    return {
      resellerId,
      blocks: blocks.map(parseAddressBlock),
      key: keyName === null ? undefined : this.#keys.get(storedName(keyName).key),
      zones: zones && new Set(zones.map((name) => storedName(name).key)),
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
  return { name: storedName(stored.name), algorithm: stored.algorithm, secret: stored.secret };
}

function groupGrants(grants: readonly Grant[]): Map<string, Grant[]> {
  const groups = new Map<string, Grant[]>();
  for (const grant of grants) {
    const group = groups.get(grant.resellerId);
    if (group) group.push(grant);
    else groups.set(grant.resellerId, [grant]);
  }
  return groups;
}

function storedName(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(`stored name ${text} is corrupt: ${name.error.message}`);
  return name.value;
}
