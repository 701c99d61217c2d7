import type { Command } from "commander";
import { readBlockText } from "../../core/dns/address-block.ts";
import { putResolverBlock } from "../../store/dns/resolver-blocks.ts";
import type { CommandRuntime } from "../runtime.ts";

/** `palomar resolver-block`: where a reseller's resolvers may be used from. */
export function registerResolverBlockCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("resolver-block")
    .description("address blocks that may use a reseller's resolvers")
    .command("add")
    .argument("<reseller_id>")
    .argument("<cidr>")
    .option("--description <text>", "what the block is; without it that of a block that is there stays")
    .description("add a block, or give one that is there another description")
    .action(async (resellerId: string, cidr: string, { description }: { description?: string }) => {
      const read = readBlockText(cidr);
      const block = read.ok ? read.value : runtime.refuse(read.error.message);
      const stored = await runtime.withDatabase(({ db }) => putResolverBlock(db, resellerId, { block, description }));
      if (!stored) return runtime.refuse(`reseller ${resellerId} does not exist`);
      runtime.print(stored, `${stored.block} ${stored.description}`.trimEnd());
    });
}
