import { describe, expect, it } from "vitest";
import { formatDomainName, parseDomainName } from "../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../services/core/dns/record.ts";
import { parseZoneFile } from "../../services/core/dns/zone-file/zone-file.ts";
import { TRANSPORT } from "../../services/dns-server/message/client.ts";
import type { Pipeline } from "../../services/dns-server/pipeline.ts";
import { ZoneDatabaseMemory } from "../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../services/dns-server/zone-database/reader.ts";
import type { ZoneDatabaseWriter } from "../../services/dns-server/zone-database/writer.ts";
import { queryOctets, readSections, type Sections } from "../support/dnssec-questions.ts";
import { fc } from "../support/property.ts";
import { respond } from "../unit/dns-server/ask.ts";
import { byOwner, pipelineOn, zoneDatabaseOf } from "../unit/dns-server/test-zone-database.ts";
import { doubtAbout, proofRecords } from "./dnssec-checker.ts";
import { APEX, labels, type ModelZone, masterFile, modelZones, textOf } from "./dnssec-zones.ts";

const TYPES = ["A", "TXT", "DS", "NS"] as const;
const questions = fc.array(fc.tuple(labels.map(textOf), fc.constantFrom(...TYPES)), { minLength: 1, maxLength: 30 });

describe("answers of signed zones", { timeout: 120_000 }, () => {
  it("prove what they should", () => {
    fc.assert(
      fc.property(modelZones, questions, (zone, asked) => {
        const pipeline = pipelineOn(zoneDatabaseWith(zone));
        for (const [name, type] of asked) {
          const response = askTcp(pipeline, name, type);
          expect(doubtAbout(zone, name, type, response), `${name} ${type}\n${masterFile(zone)}`).toBeUndefined();
          expect(response.authenticData).toBe(false);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("prove no more: without any one record of the chain nothing is proved, and none comes twice", () => {
    // With opt-out a validator has to be content with less than what is there.
    const strict = modelZones.filter(({ denial }) => denial !== "opt-out");
    fc.assert(
      fc.property(strict, questions, (zone, asked) => {
        const pipeline = pipelineOn(zoneDatabaseWith(zone));
        for (const [name, type] of asked) {
          const response = askTcp(pipeline, name, type);
          const proofs = proofRecords(response);
          expect(new Set(response.authorities).size).toBe(response.authorities.length);
          for (const left of proofs) {
            const authorities = response.authorities.filter((text) => text !== left);
            const doubt = doubtAbout(zone, name, type, { ...response, authorities });
            expect(doubt, `${name} ${type} without ${left}\n${masterFile(zone)}`).toBeDefined();
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it("have nothing of it for clients without DO", () => {
    fc.assert(
      fc.property(modelZones, questions, (zone, asked) => {
        const pipeline = pipelineOn(zoneDatabaseWith(zone));
        for (const [name, type] of asked) {
          const response = askTcp(pipeline, name, type, false);
          const records = [...response.answers, ...response.authorities, ...response.additionals];
          expect(records.filter((text) => / (RRSIG|NSEC|NSEC3) /.test(text))).toEqual([]);
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe("a signed zone that changes", { timeout: 120_000 }, () => {
  it("answers as before until all of the change is published, then as if it had been loaded so", () => {
    const change = fc.tuple(modelZones, modelZones, questions, fc.boolean());
    fc.assert(
      fc.property(change, ([before, other, asked, isHeld]) => {
        const after = { ...other, denial: before.denial };
        const writer = zoneDatabaseWith(before);
        const pipeline = pipelineOn(writer);
        const old = pipelineOn(zoneDatabaseWith(before));
        const wanted = pipelineOn(zoneDatabaseWith(after));
        // A reader that stays inside keeps both versions of the names in the tables.
        const reader = new ZoneDatabaseReader(new ZoneDatabaseMemory(writer.memory.buffers), 1);
        if (isHeld) reader.enter();
        const zone = writer.publishedZone(apexWire);
        for (const [owner, records] of differenceBetween(before, after)) {
          writer.setName(zone, owner, records);
          for (const [name, type] of asked) {
            expect(askTcp(pipeline, name, type)).toEqual(askTcp(old, name, type));
          }
        }
        writer.publishZone(zone);
        writer.collect();
        for (const [name, type] of asked) expect(askTcp(pipeline, name, type)).toEqual(askTcp(wanted, name, type));
        reader.leave();
        writer.collect();
        for (const [name, type] of asked) expect(askTcp(pipeline, name, type)).toEqual(askTcp(wanted, name, type));
      }),
      { numRuns: 100 },
    );
  });

  it("stays as it was when a change is given up, and takes the next one", () => {
    fc.assert(
      fc.property(modelZones, modelZones, questions, (before, other, asked) => {
        const after = { ...other, denial: before.denial };
        const writer = zoneDatabaseWith(before);
        const pipeline = pipelineOn(writer);
        const zone = writer.publishedZone(apexWire);
        const changes = differenceBetween(before, after);
        for (const [owner, records] of changes.slice(0, -1)) writer.setName(zone, owner, records);
        writer.discardZone(zone);
        writer.collect();
        const old = pipelineOn(zoneDatabaseWith(before));
        for (const [name, type] of asked) expect(askTcp(pipeline, name, type)).toEqual(askTcp(old, name, type));
        for (const [owner, records] of changes) writer.setName(zone, owner, records);
        writer.publishZone(zone);
        writer.collect();
        const wanted = pipelineOn(zoneDatabaseWith(after));
        for (const [name, type] of asked) expect(askTcp(pipeline, name, type)).toEqual(askTcp(wanted, name, type));
      }),
      { numRuns: 50 },
    );
  });

  it("takes no memory for good", () => {
    const [first, second] = fc.sample(
      modelZones.filter(({ names }) => names.size > 6),
      { numRuns: 2, seed: 1 },
    );
    const versions = [first!, { ...second!, denial: first!.denial }];
    const writer = zoneDatabaseWith(versions[0]!);
    const zone = writer.publishedZone(apexWire);
    const change = (from: number) => {
      for (const [owner, records] of differenceBetween(versions[from]!, versions[1 - from]!)) {
        writer.setName(zone, owner, records);
      }
      writer.publishZone(zone);
      writer.collect();
    };
    const round = () => {
      change(0);
      change(1);
      writer.collect();
      return writer.usedOctets;
    };
    const used = round();
    for (let left = 50; left > 0; left -= 1) round();
    expect(round()).toBe(used);
  });
});

const apexWire = wireOf(APEX);

function zoneDatabaseWith(zone: ModelZone): ZoneDatabaseWriter {
  return zoneDatabaseOf({ origin: APEX, text: masterFile(zone) });
}

function askTcp(pipeline: Pipeline, name: string, type: string, dnssecOk = true): Sections {
  return readSections(respond(pipeline, queryOctets({ name, type, dnssecOk }), { transport: TRANSPORT.TCP })!);
}

/** What becomes of each name that differs, the apex last. */
function differenceBetween(before: ModelZone, after: ModelZone): [Uint8Array, readonly ResourceRecord[]][] {
  const [old, wanted] = [recordsByOwner(before), recordsByOwner(after)];
  const owners = [...new Set([...old.keys(), ...wanted.keys()])].filter((owner) => owner !== APEX);
  return [...owners, APEX].map((owner) => [wireOf(owner), wanted.get(owner) ?? []]);
}

function recordsByOwner(zone: ModelZone): Map<string, readonly ResourceRecord[]> {
  const origin = parseDomainName(APEX);
  if (!origin.ok) throw new Error(origin.error.message);
  const file = parseZoneFile(masterFile(zone), { origin: origin.value, defaultTtlSeconds: 60 });
  if (!file.ok) throw new Error(file.error.message);
  const { soa, records } = file.value;
  return new Map(byOwner([soa!, ...records]).map((group) => [formatDomainName(group[0]!.owner), group]));
}

function wireOf(text: string): Uint8Array {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value.wire;
}
