import { formatIpAddress } from "../../core/dns/ip-address.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { KeySighting } from "../../core/mail/domain-setup/dkim-rotation.ts";
import type { PresentRecords, ReadPresent, SetupQuestion } from "../../core/mail/domain-setup/domain-setup.ts";
import { setupValue } from "../../core/mail/domain-setup/record-values.ts";
import type { SpfLookups } from "../../core/mail/domain-setup/spf.ts";
import { dkimMatches } from "../../core/mail/sender-records.ts";
import type { PublicAnswer, PublicLook } from "../../platform/lookups/authoritative-lookup.ts";

/** What questions found, by {@link questionKey}. */
export type Findings = ReadonlyMap<string, PresentRecords>;

const NOT_ANSWERED: PresentRecords = { values: [], answered: false };
/** Where a CNAME is wanted, these are what is there instead. */
const ADDRESS_TYPES = ["A", "AAAA"] as const;

export function questionKey({ name, type }: SetupQuestion): string {
  return `${name} ${type}`;
}

export function readFindings(found: Findings): ReadPresent {
  return (question) => found.get(questionKey(question)) ?? NOT_ANSWERED;
}

/** Asks the world what a domain publishes. */
export async function readPublic(look: PublicLook, questions: readonly SetupQuestion[]): Promise<Findings> {
  const found = questions.map(async (question) => [questionKey(question), await readOne(look, question)] as const);
  return new Map(await Promise.all(found));
}

async function readOne(look: PublicLook, { name, type }: SetupQuestion): Promise<PresentRecords> {
  const present = summarise(await look.ask(name, TYPE[type]), TYPE[type]);
  if (type !== "CNAME" || present.values.length > 0 || !present.answered) return present;
  const addresses = await Promise.all(ADDRESS_TYPES.map((other) => look.resolve(name, TYPE[other])));
  return { ...present, others: ADDRESS_TYPES.filter((_, index) => (addresses[index] ?? []).length > 0) };
}

/** What all servers have; those that have something else, or nothing, are named. A silent one has not said what it has. */
function summarise({ servers }: PublicAnswer, type: number): PresentRecords {
  const said = servers.map(({ records }) => new Set(records.map((rdata) => setupValue(type, rdata))));
  const [first = new Set<string>()] = said;
  const values = [...first].filter((value) => said.every((set) => set.has(value)));
  const all = new Set(said.flatMap((set) => [...set]));
  const isOdd = (set: ReadonlySet<string>) => set.size !== all.size;
  const differing = servers
    .filter(({ answered }, index) => answered && isOdd(said[index]!))
    .map(({ server }) => server);
  return { values, answered: servers.length > 0 && servers.every(({ answered }) => answered), differing };
}

/** Whether every name server of a zone has a key. One that does not answer has not. */
export async function sightKey(look: PublicLook, name: string, record: string): Promise<KeySighting> {
  const { servers, negativeSeconds } = await look.ask(name, TYPE.TXT);
  const has = (records: readonly Uint8Array[]) =>
    dkimMatches(
      records.map((rdata) => setupValue(TYPE.TXT, rdata)),
      record,
    );
  return {
    everywhere: servers.length > 0 && servers.every(({ answered, records }) => answered && has(records)),
    cachedSeconds: Math.max(negativeSeconds, ...servers.map(({ ttlSeconds }) => ttlSeconds)),
  };
}

/** What the counting of an SPF policy asks. */
export function spfLookups(look: PublicLook): SpfLookups {
  const values = async (name: string, type: number) =>
    (await look.resolve(name, type))?.map((rdata) => setupValue(type, rdata));
  return {
    texts: (name) => values(name, TYPE.TXT),
    exchangers: async (name) => (await values(name, TYPE.MX))?.map((value) => value.slice(value.indexOf(" ") + 1)),
    addresses: async (name) => {
      const [four, six] = await Promise.all([look.resolve(name, TYPE.A), look.resolve(name, TYPE.AAAA)]);
      return four && six && [...four, ...six].map(formatIpAddress);
    },
  };
}
