import type { Command } from "commander";
import type { FilterCondition } from "../../core/mail/filter-condition.ts";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { hasCredentials, isHttpUrl } from "../../core/url.ts";
import { judgeSelections } from "../../operations/mail/judge-selection.ts";
import { readToldKinds, showWebhookBatch, toldNames } from "../../operations/mail/told-events.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findCampaign } from "../../store/mail/campaigns/campaigns.ts";
import { listFilters } from "../../store/mail/contacts/filters.ts";
import {
  addWebhook,
  FIRST_WEBHOOK,
  findWebhook,
  listWebhookBatches,
  listWebhooks,
  MOST_WEBHOOKS,
  removeWebhook,
  replayWebhookBatch,
  type WebhookBatch,
} from "../../store/mail/tracking/webhooks.ts";
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

function registerSet(webhook: Command, runtime: CommandRuntime): void {
  const collect = (value: string, before: readonly string[]) => [...before, value];
  named(webhook, "set")
    .argument("<url>")
    .option(
      "--event <event>",
      "only this (repeatable): envio, entregado, diferido, rebote_hard, origen_falla …",
      collect,
      [],
    )
    .option("--campaign <numid>", "only of this campaign (repeatable)", collect, [])
    .option("--filter <filter>", "only of contacts that this filter selects, as it is now")
    .option("--full", "tell why and how as well: reason, status, reply, attempt, exchanger, message id", false)
    .description("tell events to this URL; prints the secret that signs them")
    .action(async (name: string, url: string, { name: which, ...options }: SetOptions) => {
      if (!isHttpUrl(url)) runtime.misused(`${JSON.stringify(url).slice(1, -1)} is no http(s) URL`);
      if (hasCredentials(url))
        runtime.misused("the URL must have no user name and no password: they would not be sent");
      if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/.test(which)) runtime.misused(`${which} is no name of a webhook`);
      const campaigns = options.campaign.map((numid) =>
        /^[1-9]\d{0,14}$/.test(numid) ? Number(numid) : runtime.misused(`${numid} is no number of a campaign`),
      );
      const kinds = readToldKinds(options.event);
      if (!kinds.ok) return runtime.misused(`${kinds.error} is no event`);
      const secret = await withInstance(runtime, name, async ({ db, keyRing }, { id }) => {
        for (const numid of campaigns) {
          if ((await findCampaign(db, id, numid)) === undefined) runtime.refuse(`${name} has no campaign ${numid}`);
        }
        return addWebhook(db, keyRing, id, {
          ...{ name: which, url, isFull: options.full },
          kinds: kinds.value.length === 0 ? null : kinds.value,
          campaigns: campaigns.length === 0 ? null : campaigns,
          condition: await findCondition(runtime, db, id, options.filter),
        });
      });
      if (secret === undefined) return runtime.refuse(`${name} has ${MOST_WEBHOOKS} webhooks already`);
      runtime.print({ name, ...ofName(which), url, secret }, secret);
    });
}

async function findCondition(
  runtime: CommandRuntime,
  db: Db,
  instanceId: number,
  filter: string | undefined,
): Promise<FilterCondition | null> {
  if (filter === undefined) return null;
  const found = (await listFilters(db, instanceId)).find(({ name }) => name === filter);
  if (found === undefined) return runtime.refuse(`there is no filter ${filter}`);
  const gone = await judgeSelections(db, instanceId, [found]);
  return gone === undefined ? found.condition : runtime.refuse(gone.message);
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
  return [id, createdAt.toISOString(), state, `${events} events`, `${attempts} attempts`, outcome?.message ?? ""].join(
    "\t",
  );
}
