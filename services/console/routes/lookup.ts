import { z } from "zod";
import { type DomainName, formatDomainName } from "../../core/dns/name.ts";
import { formatRdata } from "../../core/dns/rdata/rdata.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { isMetaType, OPCODE, RCODE, rcodeMnemonic, TYPE, typeCode, typeMnemonic } from "../../core/dns/rr-types.ts";
import { soaRecord } from "../../core/dns/soa.ts";
import { invalidField, unacceptable } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { hostPort } from "../../platform/config/config-values.ts";
import { askDns, type WireAnswer } from "../../platform/lookups/dns-question.ts";
import { readRecordsAt, recordPages } from "../../store/dns/records.ts";
import { isInForbiddenZone } from "../../store/dns/transfer-access.ts";
import { findZoneOf } from "../../store/dns/zone-names.ts";
import { type AdminCaller, areaOf, ownZones } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { readDomainName } from "../domain-name.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const record = z.object({ name: z.string(), type: z.string(), ttl: z.int(), value: z.string() });

const PATIENCE_MS = 3_000;

/** What our own server answers, beside what is stored. */
export const makeLookupEndpoints: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/lookup",
    summary: "Ask our own server over the wire as a stranger would, and show what is stored beside it",
    authorise: areaOf("reseller", "company"),
    fields: z.object({
      name: z.string(),
      type: z.string().default("A"),
      dnssec: z.enum(["true", "false"]).default("false"),
    }),
    reply: z.object({
      status: z.string(),
      flags: z.array(z.string()),
      answer: z.array(record),
      authority: z.array(record),
      additional: z.array(record),
      server: z.string(),
      transport: z.enum(["udp", "tcp"]),
      milliseconds: z.number(),
      stored: z.array(record).meta({ description: "of the caller's own zones, whatever their state" }),
    }),
    act: async ({ caller, fields }) => {
      const name = readDomainName("name", fields.name);
      if (!name.ok) return name;
      const type = typeCode(fields.type);
      if (type === undefined)
        return refuse(invalidField("type", "record-type-unknown", { text: fields.type.slice(0, 40) }));
      // Transfers above all (RFC 6895 §3.1); ANY gets data.
      if (isMetaType(type) && type !== TYPE.ANY)
        return refuse(invalidField("type", "no-data-type", { type: typeMnemonic(type) }));
      const server = await context.addressOf("dns");
      const address = hostPort(server.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:"));
      if (!address.ok) return refuse(unacceptable("dns-address-malformed", { server }));
      const startedAt = performance.now();
      const question = { qname: name.value, type, dnssec: fields.dnssec === "true" };
      const mayAsk = await maySee(context, caller, name.value);
      const asked = mayAsk ? await askDns(address.value, question, PATIENCE_MS) : ok(REFUSED);
      if (!asked.ok) {
        return refuse(problem(asked.error === "timeout" ? "dns-server-silent" : "dns-server-broken", { server }));
      }
      const { message, transport } = asked.value;
      return ok({
        status: rcodeMnemonic(message.rcode),
        flags: Object.entries(message.flags).flatMap(([flag, isSet]) => (isSet ? [flag] : [])),
        answer: message.answers.map(showRecord),
        authority: message.authorities.map(showRecord),
        additional: message.additionals.map(showRecord),
        server,
        transport,
        milliseconds: Math.round((performance.now() - startedAt) * 100) / 100,
        stored: (await storedAt(context, caller, name.value, type)).map(showRecord),
      });
    },
  }),
];

/** What a stranger is told who asks for a feed or a catalog. */
const REFUSED: WireAnswer = {
  message: {
    ...{ id: 0, opcode: OPCODE.QUERY, rcode: RCODE.REFUSED },
    flags: { qr: true, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false },
    ...{ questions: [], answers: [], authorities: [], additionals: [] },
  },
  transport: "udp",
};

/**
 * Whether our server may be asked in the caller's name. It takes us for this machine, which somebody's ACL may trust; so
 * for feeds and catalogs, the only zones whose answers depend on who asks, we judge by the caller's own ACLs first. ACLs
 * are the reseller's: a company has none.
 */
async function maySee({ db }: ConsoleContext, { role, scope }: AdminCaller, name: DomainName): Promise<boolean> {
  if (role === "operator") return true;
  return !(await isInForbiddenZone(db, name, role === "reseller" && scope !== null ? scope : undefined));
}

/** What is stored of the type at a name, in the zone of the caller's that it lies in. */
async function storedAt(
  { db }: ConsoleContext,
  caller: AdminCaller,
  name: DomainName,
  type: number,
): Promise<ResourceRecord[]> {
  const scope = await ownZones(db, caller);
  const zone = scope && (await findZoneOf(db, scope, name));
  if (!zone) return [];
  const hasSoa = zone.apex.key === name.key && (type === TYPE.SOA || type === TYPE.ANY);
  const soa = hasSoa ? [soaRecord(zone.apex, zone.soa, zone.ttl)] : [];
  if (type !== TYPE.ANY) return [...soa, ...(await readRecordsAt(db, zone.id, [name], [type, TYPE.CNAME]))];
  // Of a name with more than that no message has all.
  for await (const page of recordPages(db, zone.id, name)) return [...soa, ...page];
  return soa;
}

function showRecord({ owner, type, ttl, rdata }: ResourceRecord): z.input<typeof record> {
  return { name: formatDomainName(owner), type: typeMnemonic(type), ttl, value: formatRdata(type, rdata) };
}
