import { createServer } from "node:net";
import { expect, test } from "vitest";
import { explainUnopened } from "../../../services/cli/address-book.ts";
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
