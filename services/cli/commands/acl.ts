import type { Command } from "commander";
import { readAcl, readTsigKey, tsigKeyWarning } from "../../core/dns/acl-input.ts";
import { type Acl, addAcl, listAcls, removeAcl } from "../../store/dns/acls.ts";
import { findReseller } from "../../store/dns/resellers.ts";
import { namesWithoutZone } from "../../store/dns/transfer-zones.ts";
import { gather, orRefuse } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

interface AclOptions {
  readonly block: readonly string[];
  readonly tsig?: string;
  readonly zone: readonly string[];
  readonly notify: readonly string[];
}

/** `palomar acl`: who may transfer a reseller's zones. */
export function registerAclCommand(program: Command, runtime: CommandRuntime): void {
  const acl = program.command("acl").description("zone transfers: sources, keys, servers to notify");
  registerAdd(acl, runtime);
  registerList(acl, runtime);
  registerRemove(acl, runtime);
}

function registerAdd(acl: Command, runtime: CommandRuntime): void {
  acl
    .command("add")
    .argument("<reseller_id>")
    .argument("<name>")
    .option("--block <cidr>", "a source that may transfer; repeatable", gather, [])
    .option(
      "--tsig <key>",
      "NAME[:ALGORITHM[:BASE64]]: whoever has the key may transfer; its secret is made when not given",
    )
    .option("--zone <fqdn>", "a zone it is for; repeatable; all of the reseller's when not given", gather, [])
    .option("--notify <host[:port]>", "a server to tell of changes; repeatable", gather, [])
    .description("allow transfers; prints the secret of the key, if it has one, once")
    .action(
      async (resellerId: string, name: string, { block: blocks, zone: zones, notify, tsig: keyText }: AclOptions) => {
        const parts = orRefuse(runtime, readAcl({ name, blocks, zones, notify }));
        const tsig = keyText === undefined ? null : orRefuse(runtime, readTsigKey(splitKey(keyText)));
        const warning = tsig ? tsigKeyWarning(tsig) : undefined;
        if (warning !== undefined) runtime.note(`warning: ${warning}`);
        if (blocks.length === 0 && !tsig)
          runtime.note("warning: nobody may transfer by it, with neither --block nor --tsig");
        const acl = { ...parts, resellerId, tsig };
        const unknown = await runtime.withDatabase(async ({ db, keyRing }) => {
          orRefuse(runtime, await addAcl(db, keyRing, acl));
          return namesWithoutZone(db, resellerId, parts.zones ?? []);
        });
        for (const zone of unknown) runtime.note(`warning: ${resellerId} has no zone ${zone} yet`);
        const key = tsig && { name: tsig.name, algorithm: tsig.algorithm, secret: tsig.secret.toString("base64") };
        runtime.print({ name, tsig: key }, key ? `${name} ${key.name} ${key.algorithm} ${key.secret}` : name);
      },
    );
}

function registerList(acl: Command, runtime: CommandRuntime): void {
  acl
    .command("list")
    .argument("<reseller_id>")
    .description("list a reseller's ACLs, without the secrets of their keys")
    .action(async (resellerId: string) => {
      const acls = await runtime.withDatabase(async ({ db }) => {
        if (!(await findReseller(db, resellerId))) runtime.refuse(`reseller ${resellerId} does not exist`);
        return listAcls(db, resellerId);
      });
      runtime.print(acls, acls.map(describe).join("\n"));
    });
}

function registerRemove(acl: Command, runtime: CommandRuntime): void {
  acl
    .command("remove")
    .argument("<reseller_id>")
    .argument("<name>")
    .description("allow no more transfers by an ACL; its key goes with it")
    .action(async (resellerId: string, name: string) => {
      const isRemoved = await runtime.withDatabase(({ db }) => removeAcl(db, resellerId, name));
      if (!isRemoved) runtime.refuse(`ACL ${name} does not exist`);
      runtime.print({ name, removed: true }, `${name} removed`);
    });
}

function describe({ name, blocks, tsig, zones, notify }: Acl): string {
  const [sources, told] = [blocks, notify].map((entries) => entries.join(",") || "-");
  return [name, sources, tsig?.name ?? "-", zones?.join(",") ?? "all", told].join("\t");
}

function splitKey(text: string) {
  const [name = "", algorithm, ...secret] = text.split(":");
  return { name, algorithm, secret: secret.length === 0 ? undefined : secret.join(":") };
}
