import { expect, test } from "vitest";
import { variantOf } from "../../../../services/console/web/src/locale.ts";

test.each([
  ["en", ["en-GB", "en-US"], "en-GB"],
  ["es", ["pt-BR", "es-MX", "es"], "es-MX"],
  ["es", ["en-GB"], "es"],
  ["es", ["est", "es-419"], "es-419"],
  ["en", [], "en"],
])("of %s a browser that prefers %j has the variant %s", (language, preferred, variant) => {
  expect(variantOf(language, preferred)).toBe(variant);
});
