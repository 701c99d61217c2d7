import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../../services/platform/package-folder.ts";
import { compileVisitorRules } from "../../../services/tracking/visitor.ts";

const file = JSON.parse(readFileSync(join(packageFolder, "config", "user-agents.json"), "utf8"));
const place = { countryCode: "AR", regionCode: "AR-C", city: "Buenos Aires" };
const rules = compileVisitorRules(file, (address) => (address === "203.0.113.7" ? place : undefined));
const describe = (agent: string | undefined, headers = {}, address = "203.0.113.7") =>
  rules.describe({ headers: { "user-agent": agent, ...headers }, address });

it.each([
  [
    "iPhone",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "movil",
    12,
  ],
  ["iPad", "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148", "tableta", 22],
  [
    "Android telephone",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/137.0.0.0 Mobile Safari/537.36",
    "movil",
    11,
  ],
  [
    "Android tablet",
    "Mozilla/5.0 (Linux; Android 14; SM-X910) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36",
    "tableta",
    21,
  ],
  [
    "Windows",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36 Edg/137.0",
    "escritorio",
    31,
  ],
  ["Outlook", "Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0.18730; Pro)", "escritorio", 31],
  [
    "Apple Mail",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)",
    "escritorio",
    32,
  ],
  [
    "Thunderbird on Linux",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.11.0",
    "escritorio",
    33,
  ],
  [
    "ChromeOS",
    "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36",
    "escritorio",
    34,
  ],
  [
    "tablet that calls itself mobile",
    "Mozilla/5.0 (Linux; Android 9; SM-T515) AppleWebKit/537.36 SamsungBrowser/14.2 Chrome/87.0 Mobile Safari/537.36",
    "tableta",
    21,
  ],
  [
    "Kindle",
    "Mozilla/5.0 (Linux; Android 9; KFTRWI) AppleWebKit/537.36 Silk/120.2 like Chrome/120.0 Safari/537.36",
    "tableta",
    23,
  ],
  [
    "television without the word",
    "Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 Silk/108 like Chrome/108.0 Safari/537.36",
    "televisor",
    41,
  ],
  [
    "console on Windows",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 Edge/44.18363",
    "consola",
    51,
  ],
  ["watch", "Mozilla/5.0 (Linux; Tizen 2.3; SAMSUNG SM-R800) SamsungBrowser/2.2 Mobile Safari/537.3", "vestible", 61],
  [
    "HarmonyOS",
    "Mozilla/5.0 (Linux; Android 12; HarmonyOS; ELS-AN00) AppleWebKit/537.36 Chrome/99.0 Mobile Safari/537.36",
    "movil",
    11,
  ],
  ["KaiOS", "Mozilla/5.0 (Mobile; Nokia 2720 Flip; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5.2", "movil", 14],
  ["Opera Mini", "Opera/9.80 (J2ME/MIDP; Opera Mini/9.80 (S60; SymbOS; Opera Mobi/23.348; U; en)", "movil", 10],
  ["FreeBSD", "Mozilla/5.0 (X11; FreeBSD amd64; rv:128.0) Gecko/20100101 Firefox/128.0", "escritorio", 33],
  ["a mail program that names itself as programs do", "SamsungEmail/6.1", "", null],
])("knows what people read with: %s", (_name, agent, device, deviceSubtypeId) => {
  expect(describe(agent)).toMatchObject({ machine: undefined, device, deviceSubtypeId, place });
});

it.each([
  ["apple-mail-privacy", "Mozilla/5.0"],
  ["google-image-proxy", "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)"],
  ["yahoo-image-proxy", "YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html"],
  ["link-scanner", "Mozilla/5.0 (compatible; proofpoint; +https://www.proofpoint.com)"],
  ["link-scanner", "Mozilla/4.0 (compatible; ms-office; Microsoft Office Existence Discovery)"],
  ["link-preview", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"],
  ["link-preview", "facebookexternalhit/1.1"],
  ["crawler", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"],
  ["program", "curl/8.14.1"],
  ["program", "python-requests/2.32.3"],
  ["program", "Go-http-client/2.0"],
  [
    "program",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36",
  ],
  ["no-agent", ""],
  ["no-agent", undefined],
])("takes for a machine: %s", (machine, agent) => {
  expect(describe(agent).machine).toBe(machine);
});

it.each([
  ["sec-purpose", "prefetch"],
  ["purpose", "prefetch"],
  ["x-moz", "prefetch"],
  ["x-purpose", "preview"],
])("takes a request with %s: %s for a machine's", (name, value) => {
  expect(describe("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", { [name]: value }).machine).toBe("prefetch");
});

it("judges by network, mapped addresses as what they stand for", () => {
  const agent = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0";
  expect(describe(agent, {}, "66.249.84.1").machine).toBe("google-image-proxy");
  expect(describe(agent, {}, "::ffff:66.249.84.1").machine).toBe("google-image-proxy");
  expect(describe(agent, {}, "2001:db8::1").machine).toBeUndefined();
  expect(describe(agent, {}, "not an address").machine).toBeUndefined();
});

it.each([
  ["192.0.2.77", "192.0.2.0/24"],
  ["::ffff:192.0.2.77", "192.0.2.0/24"],
  ["2001:db8:1:2:3::4", "2001:db8:1::/48"],
  ["", ""],
  ["no address", ""],
])("keeps of %s no more than %s", (address, network) => {
  expect(describe("", {}, address).network).toBe(network);
});

it("reads again what it kept, as near as the network tells", () => {
  const near = compileVisitorRules(file, (address) => (address.startsWith("203.0.113.") ? place : undefined));
  const { userAgent, network, device, deviceSubtypeId } = near.describe({
    headers: { "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0" },
    address: "203.0.113.7",
  });
  expect(near.recall({ userAgent, network })).toEqual({ device, deviceSubtypeId, place });
  expect(near.recall({ userAgent: "", network: "" })).toEqual({ device: "", deviceSubtypeId: null, place: undefined });
});

it("keeps no more of a name than one needs", () => {
  expect(describe("x".repeat(10_000)).userAgent).toHaveLength(256);
});

it("remembers what a User-Agent is, and stays of bounded size under made-up ones", () => {
  const known = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
  for (let n = 0; n < 5_000; n++) describe(`curl/${n}`);
  expect(describe(known)).toMatchObject({ device: "escritorio", deviceSubtypeId: 33 });
  expect(describe(known)).toEqual(describe(known));
});
