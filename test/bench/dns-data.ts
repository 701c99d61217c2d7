/** The zones and queries of the DNS benchmark: the same for every server, and in every run. */

export interface BenchZone {
  /** Without the final dot. */
  readonly name: string;
  /** Master file. */
  readonly text: string;
}

/** A query as dnsperf reads it: name and type. */
export type BenchQuery = readonly [name: string, type: string];

/** Records of a zone, its SOA included. */
export const RECORDS_PER_ZONE = 54;
const HOSTS = 30;

/** @param index of the zone, from 0 */
export function benchZoneName(index: number): string {
  return `zone-${String(index).padStart(6, "0")}.test`;
}

/**
 * A zone of a small customer.
 * @param extraHosts hosts beyond those of the usual 54 records
 */
export function benchZone(index: number, extraHosts = 0): BenchZone {
  const lines = [
    "$TTL 3600",
    "@ SOA ns1 hostmaster 1 7200 3600 1209600 300",
    "@ NS ns1",
    "@ NS ns2",
    "ns1 A 192.0.2.53",
    "ns2 A 198.51.100.53",
    "@ MX 10 mail",
    "@ MX 20 mail2",
    "mail A 192.0.2.25",
    "mail AAAA 2001:db8::25",
    "mail2 A 198.51.100.25",
    "@ A 192.0.2.80",
    "@ AAAA 2001:db8::80",
    '@ TXT "v=spf1 mx -all"',
    '_dmarc TXT "v=DMARC1; p=reject"',
    `@ TXT "verification=${index.toString(16).padStart(16, "0")}"`,
    "www CNAME @",
    "ftp CNAME host-00",
    "webmail CNAME mail",
    "*.wild A 203.0.113.7",
    "_sip._tcp SRV 10 10 5060 host-01",
  ];
  const records = lines.length - 1;
  for (let host = 0; host < HOSTS + extraHosts; host += 1) lines.push(`${hostName(host)} A 203.0.113.${host % 256}`);
  for (let host = 0; records + HOSTS + host < RECORDS_PER_ZONE; host += 1) {
    lines.push(`${hostName(host)} AAAA 2001:db8::${(host + 1).toString(16)}`);
  }
  return { name: benchZoneName(index), text: `${lines.join("\n")}\n` };
}

/** 60 % existing hosts, the rest spread over what else is asked: 6 % of names that do not exist among it. */
export function benchQueries(count: number, zones: number): BenchQuery[] {
  const random = makeRandom(20_260_101);
  return Array.from({ length: count }, () => benchQuery(benchZoneName(random() % zones), random() % 100, random()));
}

function benchQuery(zone: string, percent: number, choice: number): BenchQuery {
  const host = hostName(choice % HOSTS);
  if (percent < 60) return [`${host}.${zone}`, "A"];
  if (percent < 68) return [`${["www", "ftp", "webmail"][choice % 3]}.${zone}`, "A"];
  if (percent < 75) return [zone, "MX"];
  if (percent < 81) return [zone, "TXT"];
  if (percent < 86) return [`${hostName(choice % 4)}.${zone}`, "AAAA"];
  if (percent < 90) return [`x${choice % 100_000}.wild.${zone}`, "A"];
  if (percent < 96) return [`missing-${choice % 100_000}.${zone}`, "A"];
  return [`${host}.${zone}`, "TXT"];
}

function hostName(host: number): string {
  return `host-${String(host).padStart(2, "0")}`;
}

/** A small linear congruential generator: the run must be the same everywhere. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 8;
  };
}
