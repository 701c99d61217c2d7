/** `attack.js TARGET SECONDS WHO`: everybody's worst at once, for so long; prints how often each was tried and what came of it. */
import { attackAsCompany } from "./company.ts";
import { attackAsInstance } from "./instance.ts";
import { attackAsStranger } from "./strangers.ts";
import { Tally, type Target } from "./target.ts";

const target: Target = JSON.parse(process.argv[2]!);
const run = { tally: new Tally(), until: Date.now() + Number(process.argv[3]) * 1000 };
const who = process.argv[4]!.split(",");
const attackers = Object.entries({ company: attackAsCompany, instance: attackAsInstance, strangers: attackAsStranger })
  .filter(([name]) => who.includes(name))
  .flatMap(([, attack]) => attack(target, run));
await Promise.race([
  Promise.all(attackers),
  new Promise((resolve) => setTimeout(resolve, run.until - Date.now() + 5_000)),
]);
process.stdout.write(JSON.stringify(run.tally.counts), () => process.exit(0));
