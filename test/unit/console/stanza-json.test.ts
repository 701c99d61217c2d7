import { expect, test } from "vitest";
import { stanzaJson } from "../../../services/console/stanza-json.ts";

const SHOWN = { name: 'odd "name"', for: "bind" };

test.each([0, 1, 499, 500, 501, 1_000, 12_345])(
  "of %i lines it is what JSON.stringify makes, in small steps",
  (count) => {
    const lines = Array.from({ length: count }, (_, index) => `zone "ñandú-${index}\\.example.org" {\t\u2028`);
    let taken = 0;
    const watched = (function* () {
      for (const line of lines) {
        taken += 1;
        yield line;
      }
    })();
    const steps = stanzaJson(SHOWN, watched);
    for (let takenBefore = 0; ; takenBefore = taken) {
      const step = steps.next();
      expect(taken - takenBefore).toBeLessThanOrEqual(500);
      if (!step.done) continue;
      expect(step.value.toString()).toBe(JSON.stringify({ ...SHOWN, stanza: lines.join("\n") }));
      return;
    }
  },
);
