import { type Command, Option } from "commander";
import { counted } from "../../core/counted.ts";
import { type DomainName, parseDomainName } from "../../core/dns/name.ts";
import { type RpzImportFormat, readRpzRules } from "../../core/dns/rpz/import.ts";
import {
  formatRpzAction,
  formatRpzTrigger,
  parseRpzAction,
  parseRpzTrigger,
  type RpzTrigger,
} from "../../core/dns/rpz/rules.ts";
import { parseMoment } from "../../core/moment.ts";
import { ok, refuse } from "../../core/result.ts";
import { addFeed, feedDoesNotExist, removeFeed, setFeedActive } from "../../operations/dns/rpz-feeds.ts";
import { type ImportReport, importRules } from "../../operations/dns/rpz-import.ts";
import { addRule, removeRule } from "../../operations/dns/rpz-rules.ts";
import { addSafeName } from "../../operations/dns/rpz-safe-names.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { searchRules } from "../../store/dns/console-rpz.ts";
import { findFeed, listFeeds } from "../../store/dns/rpz-feeds.ts";
import { listSafeNames, removeSafeName } from "../../store/dns/rpz-safe-names.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { noteWarnings, orRefuse, readText } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";

const FORMATS = ["rpz", "hosts", "domains"] as const satisfies readonly RpzImportFormat[];
/** A word on progress after so many lines. */
const PROGRESS_LINES = 100_000;

/** `palomar rpz`: response policy zones. */
export function registerRpzCommand(program: Command, runtime: CommandRuntime): void {
  const rpz = program.command("rpz").description("response policy zones: feeds, rules, who may use them");
  registerFeed(rpz.command("feed").description("the policy zones themselves"), runtime);
  const rule = rpz.command("rule").description("what a feed blocks, and how");
  registerRuleAdd(rule, runtime);
  registerRuleRemove(rule, runtime);
  registerRuleImport(rule, runtime);
  registerRuleList(rule, runtime);
  registerActivation(rpz, runtime, "activate", "let a reseller with the licence use a feed");
  registerActivation(rpz, runtime, "deactivate", "let a reseller use a feed no longer");
  registerSafe(rpz.command("safe").description("names that no rule may cover"), runtime);
}

function registerFeed(feed: Command, runtime: CommandRuntime): void {
  feed
    .command("add")
    .argument("<zone>")
    .description("make a feed without rules")
    .action(async (zone: string) => {
      const apex = readName(runtime, zone);
      const added = await runtime.withDatabase(async ({ db }) => {
        const result = orRefuse(runtime, await addFeed(db, apex, COMMAND_ACTOR));
        await notifyZones(db, [result.zone.id]);
        noteWarnings(runtime, result.warnings);
        return result.zone;
      });
      runtime.print({ zone: added.name, serial: added.soa.serial, rules: 0 }, added.name);
    });
  feed
    .command("remove")
    .argument("<zone>")
    .description("remove a feed and all its rules")
    .action(async (zone: string) => {
      const apex = readName(runtime, zone);
      await runtime.withDatabase(async ({ db }) => notifyZones(db, [orRefuse(runtime, await removeFeed(db, apex))]));
      runtime.print({ zone: zoneName(apex) }, `${zoneName(apex)} removed`);
    });
  feed
    .command("list")
    .description("list feeds")
    .action(async () => {
      const feeds = await runtime.withDatabase(({ db }) => listFeeds(db));
      runtime.print(feeds, feeds.map(({ zone, serial, rules }) => `${zone}\t${serial}\t${rules}`).join("\n"));
    });
}

function registerRuleAdd(rule: Command, runtime: CommandRuntime): void {
  rule
    .command("add")
    .argument("<zone>")
    .argument("<trigger>", "qname:NAME, qname:*.NAME, ip:BLOCK, client-ip:BLOCK, nsdname:NAME or nsip:BLOCK")
    .argument("<action>", 'nxdomain, nodata, passthru, drop, tcp-only, or local data as "TYPE value"')
    .option("--expires <time>", "when the rule goes by itself, such as 2026-12-01T00:00:00Z; never when not given")
    .description("add a rule, or set when one goes by itself")
    .action(async (zone: string, triggerText: string, actionTextGiven: string, options: { expires?: string }) => {
      const apex = readName(runtime, zone);
      const trigger = readTrigger(runtime, triggerText);
      const action = parseRpzAction(actionTextGiven);
      if (!action.ok) return runtime.refuse(action.error.message);
      const expiresAt = options.expires === undefined ? null : readTime(runtime, options.expires);
      const wanted = { trigger, action: action.value, expiresAt };
      const { feed } = await runtime.withDatabase(async ({ db }) => {
        const added = orRefuse(runtime, await addRule(db, apex, wanted, COMMAND_ACTOR));
        if (added.changed) await notifyZones(db, [added.feed.id]);
        return added;
      });
      const [triggerShown, actionShown] = [formatRpzTrigger(trigger), formatRpzAction(action.value)];
      const expires = expiresAt?.toISOString();
      runtime.print(
        {
          ...{ zone: feed.name, serial: feed.soa.serial, trigger: triggerShown, action: actionShown },
          ...(expires !== undefined && { expires }),
        },
        `${feed.name} ${feed.soa.serial}: ${triggerShown} ${actionShown}${expires === undefined ? "" : ` until ${expires}`}`,
      );
    });
}

function registerRuleRemove(rule: Command, runtime: CommandRuntime): void {
  rule
    .command("remove")
    .argument("<zone>")
    .argument("<trigger>", "as for rule add, or owner:NAME as rule list shows what is no rule")
    .description("remove all that a trigger does")
    .action(async (zone: string, triggerText: string) => {
      const apex = readName(runtime, zone);
      const { feed, trigger } = await runtime.withDatabase(async ({ db }) => {
        const removed = orRefuse(runtime, await removeRule(db, apex, triggerText, COMMAND_ACTOR));
        await notifyZones(db, [removed.feed.id]);
        return removed;
      });
      runtime.print(
        { zone: feed.name, serial: feed.soa.serial, trigger },
        `${feed.name} ${feed.soa.serial}: ${trigger} removed`,
      );
    });
}

function registerRuleImport(rule: Command, runtime: CommandRuntime): void {
  rule
    .command("import")
    .argument("<zone>")
    .argument("<file>")
    .addOption(new Option("--format <format>", "what the file is").choices(FORMATS).default("rpz"))
    .description("add the rules of a policy zone, a hosts file, or a list of domains")
    .action(async (zone: string, file: string, { format }: { format: RpzImportFormat }) => {
      const apex = readName(runtime, zone);
      const text = readText(runtime, file);
      const readLines = () => readRpzRules(text, format, apex);
      const report = await runtime.withDatabase(async ({ db }) => {
        const onProgress = (read: number) => {
          if (read % PROGRESS_LINES === 0) runtime.note(`${read} lines`);
        };
        const imported = orRefuse(
          runtime,
          await importRules(db, apex, readLines, { actor: COMMAND_ACTOR, onProgress }),
        );
        if (imported.added > 0) await notifyZones(db, [imported.feed.id]);
        return imported;
      });
      runtime.note(`${counted(report.added, "rule")} added`);
      const { feed, added, duplicates, conflicts } = report;
      const rejected = report.rejected.map(({ line, reason }) => ({ line, msg: reason.message }));
      runtime.print(
        { zone: feed.name, serial: feed.soa.serial, added, duplicates, conflicts, rejected },
        describe(report),
      );
      if (conflicts.length + rejected.length > 0) runtime.exitWith(1);
    });
}

function registerRuleList(rule: Command, runtime: CommandRuntime): void {
  rule
    .command("list")
    .argument("<zone>")
    .option("--match <text>", "only rules whose trigger contains it", "")
    .description("list the rules of a feed, oldest first")
    .action(async (zone: string, { match }: { match: string }) => {
      const apex = readName(runtime, zone);
      await runtime.withDatabase(async ({ db }) => {
        const found = await findFeed(db, apex);
        const feed = orRefuse(runtime, found ? ok(found) : refuse(feedDoesNotExist(apex)));
        await runtime.printEach(rulesOf(db, feed, match), ({ trigger, action, expires, fault }) => {
          const noRule = fault === undefined ? [] : [`no rule: ${fault}`];
          return [trigger, action, ...(expires === undefined ? [] : [expires]), ...noRule].join("\t");
        });
      });
    });
}

async function* rulesOf(db: Db, feed: Zone, match: string) {
  for (let after = 0; ; ) {
    const page = await searchRules(db, feed, match, { after, limit: RULES_A_PAGE });
    for (const { id, trigger, action, expiresAt, fault } of page) {
      const more = { ...(expiresAt && { expires: expiresAt.toISOString() }), ...(fault && { fault: fault.message }) };
      yield { trigger, action, ...more };
      after = id;
    }
    if (page.length < RULES_A_PAGE) return;
  }
}

const RULES_A_PAGE = 10_000;

function describe({ feed, added, duplicates, conflicts, rejected }: ImportReport): string {
  return [
    `${feed.name} ${feed.soa.serial}: ${added} added, ${duplicates} duplicates`,
    ...conflicts.map(({ line, trigger, has, wanted }) => `line ${line}: ${trigger} has ${has}, wanted ${wanted}`),
    ...rejected.map(({ line, reason }) => `line ${line}: ${reason.message}`),
  ].join("\n");
}

function registerActivation(
  rpz: Command,
  runtime: CommandRuntime,
  verb: "activate" | "deactivate",
  description: string,
): void {
  rpz
    .command(verb)
    .argument("<zone>")
    .argument("<reseller_id>")
    .description(description)
    .action(async (zone: string, resellerId: string) => {
      const apex = readName(runtime, zone);
      const active = verb === "activate";
      orRefuse(runtime, await runtime.withDatabase(({ db }) => setFeedActive(db, apex, resellerId, active)));
      const name = zoneName(apex);
      runtime.print({ zone: name, reseller_id: resellerId, active }, `${name} ${resellerId} ${verb}d`);
    });
}

function registerSafe(safe: Command, runtime: CommandRuntime): void {
  safe
    .command("add")
    .argument("<name>")
    .description("make a name safe; rules that cover it are removed")
    .action(async (text: string) => {
      const name = readName(runtime, text);
      const { removed } = await runtime.withDatabase(async ({ db }) => {
        const added = await addSafeName(db, name, COMMAND_ACTOR);
        if (added.zoneIds.length > 0) await notifyZones(db, added.zoneIds);
        return added;
      });
      const shown = removed.map(({ zone, trigger }) => `\n${zone}: ${trigger} removed`);
      runtime.print({ name: zoneName(name), removed }, `${zoneName(name)}${shown.join("")}`);
    });
  safe
    .command("remove")
    .argument("<name>")
    .description("let rules cover a name again")
    .action(async (text: string) => {
      const name = readName(runtime, text);
      const known = await runtime.withDatabase(({ db }) => removeSafeName(db, name));
      if (!known) runtime.refuse(`${zoneName(name)} is not safe`);
      runtime.print({ name: zoneName(name) }, `${zoneName(name)} removed`);
    });
  safe
    .command("list")
    .description("list safe names")
    .action(async () => {
      const names = await runtime.withDatabase(({ db }) => listSafeNames(db));
      runtime.print(names, names.join("\n"));
    });
}

function readName(runtime: CommandRuntime, text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) return runtime.refuse(`${text}: ${name.error.message}`);
  return name.value.labelCount > 0 ? name.value : runtime.refuse("the root is no name for this");
}

function readTrigger(runtime: CommandRuntime, text: string): RpzTrigger {
  const trigger = parseRpzTrigger(text);
  return trigger.ok ? trigger.value : runtime.refuse(trigger.error.message);
}

/** RFC 3339, in the future. */
function readTime(runtime: CommandRuntime, text: string): Date {
  const time = parseMoment(text);
  if (time === undefined) return runtime.misused(`${text} is not a time like 2026-12-01T00:00:00Z`);
  return time.getTime() > Date.now() ? time : runtime.refuse(`${text} is past`);
}
