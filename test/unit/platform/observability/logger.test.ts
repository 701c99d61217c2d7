import { expect, it } from "vitest";
import { makeLogger } from "../../../../services/platform/observability/logger.ts";
import { makeObserve } from "../../../../services/platform/observability/observe.ts";

function logged(write: (logger: ReturnType<typeof makeLogger>) => void): string {
  const lines: string[] = [];
  write(makeLogger("test", "debug", { write: (line) => lines.push(line) }));
  return lines.join("");
}

it.each(["key", "apikey", "password", "secret", "authorization", "cookie"])("a line shows no %s", (name) => {
  const text = logged((logger) => logger.info({ [name]: "hush", headers: { [name]: "hush" }, kept: "seen" }, "said"));
  expect(text).not.toContain("hush");
  expect(JSON.parse(text)).toMatchObject({ kept: "seen", [name]: "[Redacted]", msg: "said" });
});

it("nor does that of an observation", () => {
  const text = logged((logger) =>
    makeObserve(logger)({ kind: "key-wrong", level: "warn", client: "192.0.2.1", ...{ password: "hush" } }),
  );
  const shown = { kind: "key-wrong", client: "192.0.2.1", password: "[Redacted]", service: "test" };
  expect(JSON.parse(text)).toMatchObject(shown);
});
