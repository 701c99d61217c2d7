import { createServer } from "node:net";
import { expect, test } from "vitest";
import { AddressBook, explainUnopened } from "../../../services/cli/address-book.ts";
import { bindWithPatience } from "../../../services/platform/bind.ts";
import { loadConfig } from "../../../services/platform/config/config.ts";

test("an address that is taken is told with the variable that it stands in", async () => {
  const other = createServer();
  await bindWithPatience(other, { host: "127.0.0.1", port: 0 });
  const { port } = other.address() as { port: number };
  const config = loadConfig({ PALOMAR_SECRET: "x".repeat(40), PALOMAR_MX_LISTEN: `127.0.0.1:${port}` });
  if (!config.ok) throw new Error(config.error.join());
  const { listen } = config.value;
  const failure: Error = await bindWithPatience(createServer(), { host: "127.0.0.1", port }, 0).catch((error) => error);
  expect(explainUnopened(failure, listen)).toMatch(
    /^PALOMAR_MX_LISTEN: cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/,
  );
  other.close();
  expect(explainUnopened(new Error("another"), listen)).toBeUndefined();
});

test("of several addresses of a listener, siblings go to the first", async () => {
  const config = loadConfig({ PALOMAR_SECRET: "x".repeat(40), PALOMAR_MX_LISTEN: "127.0.0.3:25,127.0.0.4:25" });
  if (!config.ok) throw new Error(config.error.join());
  const book = new AddressBook(config.value);
  book.learn({ dns: "127.0.0.1:53,127.0.0.2:53", dns_api: "http://127.0.0.1:80,http://127.0.0.2:80" }, []);
  expect(await book.addressOf("dns")).toBe("127.0.0.1:53");
  expect(await book.addressOf("dns_api")).toBe("http://127.0.0.1:80");
  expect(await book.addressOf("mx")).toBe("127.0.0.3:25");
});
