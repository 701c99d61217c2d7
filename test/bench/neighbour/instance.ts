import { call, outcomeOf } from "./http-call.ts";
import { repeat, sourceAddress, type Tally, type Target } from "./target.ts";

const NETWORK = 12;

/** What an instance does with its own key to everybody else. Its recipients are one host's, as the neighbour's are. */
export function attackAsInstance(
  target: Target,
  run: { readonly tally: Tally; readonly until: number },
): Promise<void>[] {
  const { key, campaign, name } = target.instance;
  const api = (client: number, method: string, path: string, body?: unknown) =>
    call({
      method,
      url: `${target.mailApi}/v1${path}`,
      headers: { Authorization: key },
      from: sourceAddress(NETWORK, client),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const at = (attack: string, step: (turn: number) => ReturnType<typeof api>) =>
    repeat(run, attack, async (turn) => outcomeOf(await step(turn)));
  const send = { campana_id: campaign, email: true };
  const attachment = Buffer.alloc(15_000_000, name).toString("base64");
  return [
    at("send to 50,000", (turn) =>
      api(1, "POST", "/envio/send_many_inline/", {
        ...send,
        html: "<p>Buy XYZEMAILXYZ</p>",
        contactos: Array.from({ length: 50_000 }, (_, index) => ({
          email: `${["", "defer+", "reject+"][index % 3]}v${index}@d${(turn * 7 + index) % 500}.victims.test`,
        })),
      }),
    ),
    ...[0, 1].map((client) =>
      at("message of 20 MB", (turn) =>
        api(2 + client, "POST", "/envio/send_one_inline/", {
          ...send,
          html: "<p>Large</p>",
          contacto: { email: `large${turn}@d${client}.victims.test` },
          adjuntos: [{ filename: "a.bin", content: [attachment] }],
        }),
      ),
    ),
    ...[0, 1, 2, 3].map((client) =>
      at("contact with 1,000 fields", (turn) =>
        api(10 + client, "POST", "/contacto/", {
          email: `c${turn % 500}@d${client}.victims.test`,
          campos: Array.from({ length: 1_000 }, (_, index) => ({
            nombre: `F${turn % 50}X${index}`,
            valor: "v".repeat(100),
          })),
        }),
      ),
    ),
    ...[0, 1].map((client) =>
      at("all events", () =>
        api(20 + client, "GET", "/ver_eventos", {
          ...{ fechahora_desde: "2000-01-01_00:00:00", fechahora_hasta: "2099-01-01_00:00:00" },
          ...{ pagina: 100, cantidad: 1000 },
        }),
      ),
    ),
    at("message fetched from inside", () =>
      api(30, "POST", "/envio/send_one_uri/", {
        ...send,
        contacto: { email: "u@d1.victims.test" },
        html_url: `${target.console}/`,
      }),
    ),
  ];
}
