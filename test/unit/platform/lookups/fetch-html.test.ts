import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { refuse } from "../../../../services/core/result.ts";
import { loadConfig } from "../../../../services/platform/config/config.ts";
import { fetchText } from "../../../../services/platform/lookups/fetch-html.ts";
import type { Resolver } from "../../../../services/platform/lookups/resolver.ts";
import { saying } from "../../../support/said.ts";

const DEADLINE_MS = 200;
/** Of what comes to another end, however busy the machine. */
const PATIENCE_MS = 240_000;
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A resolver that never answers. */
const SILENT: Resolver = {
  resolveMx: () => new Promise(() => {}),
  resolveA: () => new Promise(() => {}),
  resolveAaaa: () => new Promise(() => {}),
};

function fetchWithin(deadlineMs: number, url: string, mostRedirects?: number) {
  const config = loadConfig({ PALOMAR_RESOLVER: "192.0.2.53:53", PALOMAR_FETCH_ALLOW: "127.0.0.0/8" });
  if (!config.ok) throw new Error(config.error.join());
  const more = mostRedirects === undefined ? {} : { mostRedirects };
  return fetchText(url, "html", { config: config.value, resolver: SILENT, deadlineMs, ...more });
}

describe("one deadline covers", () => {
  test("the look-up of the name", async () => {
    expect(await fetchWithin(DEADLINE_MS, "http://slow.example.org/")).toEqual(refuse(saying("timeout")));
  });

  test("the look-up of a name that a redirect leads to", async () => {
    const url = await serve((_request, response) =>
      response.writeHead(302, { Location: "http://slow.example.org/" }).end(),
    );
    expect(await fetchWithin(DEADLINE_MS, url)).toEqual(refuse(saying("timeout")));
  });

  test("all redirects together", async () => {
    const url = await serve((_request, response) => {
      setTimeout(() => response.writeHead(302, { Location: "/" }).end(), DEADLINE_MS / 4);
    });
    expect(await fetchWithin(DEADLINE_MS, url, 1_000)).toEqual(refuse(saying("timeout")));
  });

  test("a page that comes drop by drop", async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { "Content-Type": "text/html" });
      const drops = setInterval(() => response.write("."), DEADLINE_MS / 10);
      response.on("close", () => clearInterval(drops));
    });
    expect(await fetchWithin(DEADLINE_MS, url)).toEqual(refuse(saying("timeout")));
  });
});

describe("servers of clouds are not fetched from", () => {
  test.each([
    "http://168.63.129.16/machine?comp=goalstate",
    // The spellings that URLs have for the same address (WHATWG URL §3.5).
    "http://2822734096/",
    "http://0xa83f8110/",
    "http://0250.077.0201.020/",
    "http://[::ffff:168.63.129.16]/",
    "http://[64:ff9b::a83f:8110]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
  ])("%s", async (url) => expect(await fetchWithin(PATIENCE_MS, url)).toEqual(refuse(saying("address not allowed"))));

  test("by a redirect", async () => {
    const url = await serve((_request, response) =>
      response.writeHead(302, { Location: "http://168.63.129.16/" }).end(),
    );
    expect(await fetchWithin(PATIENCE_MS, url)).toEqual(refuse(saying("address not allowed")));
  });
});

test("a text of more than 64 KiB is refused: a policy has no more (RFC 8461 §3.2)", async () => {
  const config = loadConfig({ PALOMAR_FETCH_ALLOW: "127.0.0.0/8" });
  if (!config.ok) throw new Error(config.error.join());
  const surroundings = { config: config.value, resolver: SILENT };
  const fetchOf = async (octets: number) =>
    fetchText(await serve((_request, reply) => reply.end("x".repeat(octets))), "text", surroundings);
  expect((await fetchOf(65_536)).ok).toBe(true);
  expect(await fetchOf(65_537)).toMatchObject({ ok: false, error: { code: "larger-than" } });
});
