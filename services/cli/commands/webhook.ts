import type { Command } from "commander";
import { parseHttpUrl } from "../../core/url.ts";
import { findInstanceByName, type Instance } from "../../store/mail/instances/instances.ts";
import {
  findWebhook,
  listWebhookBatches,
  removeWebhook,
  replayWebhookBatch,
  setWebhook,
  type WebhookBatch,
} from "../../store/mail/tracking/webhooks.ts";
import type { CommandDatabase } from "../database.ts";
import type { CommandRuntime } from "../runtime.ts";

const LISTED = 50;

/** `palomar webhook …`: where instances have their events told. */
export function registerWebhookCommand(program: Command, runtime: CommandRuntime): void {
  const webhook = program.command("webhook").description("webhooks of instances");
  webhook
    .command("set")
    .argument("<instance>")
    .argument("<url>")
    .description("tell events to this URL; prints the secret that signs them")
    .action(async (name: string, url: string) => {
      if (!parseHttpUrl(url)) runtime.misused(`${url} is no http(s) URL`);
      const secret = await withInstance(runtime, name, (database, { id }) =>
        setWebhook(database.db, database.keyRing, id, url),
      );
      runtime.print({ name, url, secret }, secret);
    });
  webhook
    .command("show")
    .argument("<instance>")
    .description("show where events are told")
    .action(async (name: string) => {
      const found = await withInstance(runtime, name, ({ db }, { id }) => findWebhook(db, id));
      if (found === undefined) runtime.refuse(`${name} has no webhook`);
      runtime.print({ name, url: found.url, failures: found.failures }, found.url);
    });
  webhook
    .command("remove")
    .argument("<instance>")
    .description("tell no more events, and forget those that wait")
    .action(async (name: string) => {
      const removed = await withInstance(runtime, name, ({ db }, { id }) => removeWebhook(db, id));
      if (!removed) runtime.refuse(`${name} has no webhook`);
      runtime.print({ name, removed }, "removed");
    });
  webhook
    .command("log")
    .argument("<instance>")
    .description(`the last ${LISTED} batches, newest first`)
    .action(async (name: string) => {
      const batches = await withInstance(runtime, name, ({ db }, { id }) =>
        listWebhookBatches(db, id, { limit: LISTED }),
      );
      runtime.print(batches, batches.map(toLine).join("\n"));
    });
  webhook
    .command("replay")
    .argument("<instance>")
    .argument("<batch>", "its number in the log")
    .description("send a batch once more")
    .action(async (name: string, given: string) => {
      const batch = /^[1-9]\d{0,14}$/.test(given) ? Number(given) : runtime.misused(`${given} is no number of a batch`);
      const replayed = await withInstance(runtime, name, ({ db }, { id }) => replayWebhookBatch(db, id, batch));
      if (!replayed) runtime.refuse(`${name} has no batch ${batch}`);
      runtime.print({ name, batch, state: "waiting" }, `batch ${batch} will be sent again`);
    });
}

function toLine({ id, state, events, attempts, createdAt, outcome }: WebhookBatch): string {
  return [id, createdAt.toISOString(), state, `${events} events`, `${attempts} attempts`, outcome ?? ""].join("\t");
}

async function withInstance<T>(
  runtime: CommandRuntime,
  name: string,
  use: (database: CommandDatabase, instance: Instance) => Promise<T>,
): Promise<T> {
  return runtime.withDatabase(async (database) => {
    const instance = await findInstanceByName(database.db, name);
    if (instance === undefined) return runtime.refuse(`there is no instance ${name}`);
    return use(database, instance);
  });
}
