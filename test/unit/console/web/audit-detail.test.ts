import { expect, test } from "vitest";
import { describeDetail } from "../../../../services/console/web/src/operator/audit-detail.ts";
import { es } from "../../../../services/console/web/src/texts/es/index.ts";
import { sentence } from "../../../../services/core/sentences.ts";

const words = {
  texts: es,
  describeReason: ({ message }: { readonly message: string }) => `<${message}>`,
  formatTime: (moment: string) => `<${moment}>`,
};

test.each([
  [{}, ""],
  [{ reason: sentence("guard-by-hand", { reason: "ok" }) }, "motivo: <ok>"],
  [{ asunto: "Hola", grupos: ["a", "b"], filtros: [] }, "asunto: Hola; grupos: a, b; filtros: –"],
  [{ at: "now" }, "empieza: Ahora"],
  [{ expires: "2030-01-01T00:00:00Z", action: "" }, "caduca: <2030-01-01T00:00:00Z>; acción: –"],
  [{ expires: "2030-13-01T00:00:00Z" }, "caduca: 2030-13-01T00:00:00Z"],
  [{ role: "reseller", scope: "instance" }, "rol: Revendedor; alcance: instance"],
  [
    { scope: "campaign", per_hour: 100, per_day: null, over: "wait" },
    "alcance: una campaña; por hora: 100; por día: –; lo que excede: espera",
  ],
  [{ dry_run: "true", archive: false }, "de prueba: Sí; licencia de archivo: No"],
  [{ detectors: { complaints: "hold" }, what_is_new: 1 }, "detectores: complaints: hold; what_is_new: 1"],
  [{ limit: "address and login", failures: 5 }, "contados por: dirección y usuario; intentos fallidos: 5"],
])("the details of a change are said in words: %j", (detail, said) => {
  expect(describeDetail(detail, words)).toBe(said);
});
