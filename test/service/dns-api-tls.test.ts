import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeZone, RESELLER_ONE, RESELLER_TWO, type RunningApi, startApiWithCompany } from "../support/dns-api.ts";

let api: RunningApi;
let dataDir: string;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "palomar-dns-api-tls-"));
  api = await startApiWithCompany({ PALOMAR_DNS_API_TLS_LISTEN: "127.0.0.1:0", PALOMAR_DATA_DIR: dataDir });
});
afterAll(async () => {
  await api.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** Calls over HTTPS, and believes the server's own certificate alone. */
function callSecurely(method: string, path: string, body?: object, as = RESELLER_ONE) {
  return new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const sent = request(`https://${api.tls}${path}`, {
      ...{ method, ca: readFileSync(join(dataDir, "self-signed.pem"), "utf8"), servername: "localhost", agent: false },
      headers: { Authorization: as.key, Reseller: as.reseller, Host: "localhost" },
    });
    sent.on("error", reject);
    sent.on("response", async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      resolve({ status: response.statusCode, text });
    });
    sent.end(body && JSON.stringify(body));
  });
}

test("the API is served over HTTPS as well, to the same callers", async () => {
  const zone = await makeZone(api);
  const made = await callSecurely("POST", `/api/v1/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.1" });
  expect([made.status, JSON.parse(made.text)]).toEqual([200, { rr_id: expect.any(Number), serial: 2 }]);
  const { body } = await api.call("GET", `/api/v1/rr/${zone}`);
  expect(body.rr).toContainEqual(expect.objectContaining({ rr_id: JSON.parse(made.text).rr_id, name: "www" }));
  const stranger = await callSecurely("GET", `/api/v1/rr/${zone}`, undefined, RESELLER_TWO);
  expect(stranger.status).toBe(400);
  const wrong = await callSecurely("GET", `/api/v1/rr/${zone}`, undefined, { ...RESELLER_ONE, key: "a-wrong-key" });
  expect(wrong.status).toBe(403);
});

test("who speaks in clear to it is told nothing", async () => {
  const [host, port] = api.tls!.split(":") as [string, string];
  const heard = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connect({ host, port: Number(port) }, () =>
      socket.write("GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"),
    );
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
  });
  expect(heard).not.toContain("HTTP/1.1");
});
