import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type TsigKey, verifyRequest } from "../../../../services/core/dns/tsig.ts";
import { Notifier } from "../../../../services/dns-server/notify/notifier.ts";
import { AccessTable } from "../../../../services/dns-server/transfer/access-table.ts";
import type { ZoneState } from "../../../../services/store/dns/zone-states.ts";
import { nameOf } from "../../../support/dns-server.ts";

const NOW_SECONDS = 1_800_000_000;
const KEY = { name: "told.example.", algorithm: "hmac-sha256" } as const;

let secondary: Socket;
let notifier: Notifier;
let access: AccessTable;

/** The ACL's key as it is from now on. */
function setSecret(text: string): TsigKey {
  const secret = Buffer.from(text);
  access = new AccessTable({
    version: 1,
    keys: [{ ...KEY, secret }],
    grants: [
      {
        resellerId: "1",
        blocks: [],
        keyName: KEY.name,
        zones: null,
        notify: [`127.0.0.1:${secondary.address().port}`],
      },
    ],
    restricted: [],
  });
  return { ...KEY, name: nameOf("told.example"), secret };
}

function publish(zone: string): void {
  const apex = Buffer.from(nameOf(zone).key, "latin1");
  const soaRdata = Buffer.concat([apex, apex, Buffer.alloc(20, 1)]);
  const state: ZoneState = {
    ...{ id: 1, apex, published: true, version: 1, soaTtlSeconds: 300, negativeTtlSeconds: 300, expireSeconds: 300 },
    ...{ soaRdata, resellerId: "1", restricted: false },
  };
  notifier.zonesPublished([state]);
}

const nextMessage = async (): Promise<Buffer> => (await once(secondary, "message"))[0];
const verdictOn = (message: Buffer, key: TsigKey) => verifyRequest(message, () => key, NOW_SECONDS).kind;

beforeEach(async () => {
  secondary = createSocket("udp4").bind(0, "127.0.0.1");
  await once(secondary, "listening");
  notifier = new Notifier({
    // Nobody acknowledges: what was told first is under way for as long as the test takes.
    policy: { waitSeconds: [600], restMs: 0, inFlightPerServer: 10 },
    access: () => access,
    listen: [],
    notifyNs: false,
    db: undefined as never,
    resolver: undefined as never,
    nowSeconds: () => NOW_SECONDS,
    observe: () => {},
  });
});

afterEach(async () => {
  await notifier.stop();
  secondary.close();
});

test("a key whose secret has changed signs what is told from then on", async () => {
  const before = setSecret("a secret of the first key");
  publish("example.org");
  expect(verdictOn(await nextMessage(), before)).toBe("valid");
  const after = setSecret("a secret of the second key");
  publish("example.net");
  expect(verdictOn(await nextMessage(), after)).toBe("valid");
});
