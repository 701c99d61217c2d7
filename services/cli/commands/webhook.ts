import type { Command } from "commander";
import { z } from "zod";
import { counted } from "../../core/counted.ts";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { webhookFields } from "../../core/mail/webhook-input.ts";
import { showWebhookBatch, toldNames } from "../../operations/mail/told-events.ts";
import { setWebhook, type WebhookFault } from "../../operations/mail/webhook-setting.ts";
import { validateFields } from "../../platform/http/fields.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type Filter, findFilterByName } from "../../store/mail/contacts/filters.ts";
import {
  FIRST_WEBHOOK,
  findWebhook,
  listWebhookBatches,
  listWebhooks,
  MOST_WEBHOOKS,
  removeWebhook,
  replayWebhookBatch,
  type WebhookBatch,
} from "../../store/mail/tracking/webhooks.ts";
import { gather, refusalText } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";

const LISTED = 50;

/** `palomar webhook …`: where instances have their events told. */
export function registerWebhookCommand(program: Command, runtime: CommandRuntime): void {
  const webhook = program.command("webhook").description("webhooks of instances");
  registerSet(webhook, runtime);
  registerList(webhook, runtime);
  named(webhook, "show")
    .description("show where events are told")
    .action(async (name: string, { name: which }: Named) => {
      const found = await withInstance(runtime, name, ({ db }, { id }) => findWebhook(db, id, which));
      if (found === undefined) runtime.refuse(`${name} has ${noWebhook(which)}`);
      runtime.print({ name, ...ofName(which), url: found.url, failures: found.failures }, found.url);
    });
  named(webhook, "remove")
    .description("tell no more events, and forget those that wait")
    .action(async (name: string, { name: which }: Named) => {
      const removed = await withInstance(runtime, name, ({ db }, { id }) => removeWebhook(db, id, which));
      if (!removed) runtime.refuse(`${name} has ${noWebhook(which)}`);
      runtime.print({ name, ...ofName(which), removed }, "removed");
    });
  named(webhook, "log")
    .description(`the last ${LISTED} batches, newest first`)
    .action(async (name: string, { name: which }: Named) => {
      const batches = await withInstance(runtime, name, ({ db }, { id }) =>
        listWebhookBatches(db, id, { limit: LISTED }, which),
      );
      runtime.print(batches.map(showWebhookBatch), batches.map(toLine).join("\n"));
    });
  named(webhook, "replay")
    .argument("<batch>", "its number in the log")
    .description("send a batch once more")
    .action(async (name: string, given: string, { name: which }: Named) => {
      const batch = /^[1-9]\d{0,14}$/.test(given) ? Number(given) : runtime.misused(`${given} is no number of a batch`);
      const replayed = await withInstance(runtime, name, ({ db }, { id }) => replayWebhookBatch(db, id, batch, which));
      if (!replayed) runtime.refuse(`${name} has no batch ${batch}`);
      runtime.print({ name, ...ofName(which), batch, state: "waiting" }, `batch ${batch} will be sent again`);
    });
}

/** A command about one webhook of an instance. */
interface Named {
  readonly name: string;
}

function named(parent: Command, name: string): Command {
  return parent.command(name).argument("<instance>").option("--name <webhook>", "which of its webhooks", FIRST_WEBHOOK);
}

const noWebhook = (which: string) => (which === FIRST_WEBHOOK ? "no webhook" : `no webhook ${which}`);
const ofName = (which: string) => (which === FIRST_WEBHOOK ? {} : { webhook: which });

interface SetOptions extends Named {
  readonly event: readonly string[];
  readonly campaign: readonly string[];
  readonly filter?: string;
  readonly full: boolean;
}

const wishFields = z.object(webhookFields);

function registerSet(webhook: Command, runtime: CommandRuntime): void {
  named(webhook, "set")
    .argument("<url>")
    .option(
      "--event <event>",
      "only this (repeatable): envio, entregado, diferido, rebote_hard, origen_falla …",
      gather,
      [],
    )
    .option("--campaign <numid>", "only of this campaign (repeatable)", gather, [])
    .option("--filter <filter>", "only of contacts that this filter selects, as it is now")
    .option("--full", "tell why and how as well: reason, status, reply, attempt, exchanger, message id", false)
    .description("tell events to this URL; prints the secret that signs them")
    .action(async (name: string, url: string, { name: which, ...options }: SetOptions) => {
      const campaigns = options.campaign.map((numid) =>
        /^[1-9]\d{0,14}$/.test(numid) ? Number(numid) : runtime.misused(`${numid} is no number of a campaign`),
      );
      const wish = validateFields(wishFields, {
        ...{ url, name: which },
        ...(options.event.length === 0 ? {} : { kinds: options.event }),
        ...(campaigns.length === 0 ? {} : { campaigns }),
      });
      if (!wish.ok) return runtime.misused(refusalText(wish.error));
      const secret = await withInstance(runtime, name, async (database, { id }) => {
        const filter = await findNamedFilter(runtime, database.db, id, options.filter);
        return setWebhook(database, id, { ...wish.value, filter, isFull: options.full });
      });
      if (!secret.ok) return refuseSet(runtime, name, secret.error);
      runtime.print({ name, ...ofName(which), url: wish.value.url, secret: secret.value }, secret.value);
    });
}

function refuseSet(runtime: CommandRuntime, name: string, fault: WebhookFault): never {
  switch (fault.kind) {
    case "no-event":
      return runtime.misused(`${fault.name} is no event`);
    case "no-campaign":
      return runtime.refuse(`${name} has no campaign ${fault.numid}`);
    case "group-gone":
      return runtime.refuse(fault.reason.message);
    case "many":
      return runtime.refuse(`${name} has ${MOST_WEBHOOKS} webhooks already`);
  }
}

async function findNamedFilter(
  runtime: CommandRuntime,
  db: Db,
  instanceId: number,
  filter: string | undefined,
): Promise<Filter | undefined> {
  if (filter === undefined) return undefined;
  return (await findFilterByName(db, instanceId, filter)) ?? runtime.refuse(`there is no filter ${filter}`);
}

function registerList(webhook: Command, runtime: CommandRuntime): void {
  webhook
    .command("list")
    .argument("<instance>")
    .description("all webhooks of an instance, and what each is told")
    .action(async (name: string) => {
      const webhooks = await withInstance(runtime, name, ({ db }, { id }) => listWebhooks(db, id));
      const shown = webhooks.map(({ kinds, condition, isFull, nextAttemptAt, ...rest }) => ({
        ...rest,
        events: kinds && toldNames(kinds),
        condiciones: condition && toConditionJson(condition),
        full: isFull,
        next_attempt: nextAttemptAt.toISOString(),
      }));
      const lines = shown.map(({ name: which, url, events, campaigns, failures }) =>
        [which, url, events?.join() ?? "", campaigns?.join() ?? "", failures === 0 ? "" : `${failures} failures`].join(
          "\t",
        ),
      );
      runtime.print(shown, lines.join("\n"));
    });
}

function toLine({ id, state, events, attempts, createdAt, outcome }: WebhookBatch): string {
  const sizes = [counted(events, "event"), counted(attempts, "attempt")];
  return [id, createdAt.toISOString(), state, ...sizes, outcome?.message ?? ""].join("\t");
}
