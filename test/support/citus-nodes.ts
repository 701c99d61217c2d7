import { execFileSync, spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { withDatabase } from "./named-server.ts";

/** A machine of a Citus cluster, as its coordinator names it. */
export interface Node {
  readonly name: string;
  readonly port: number;
}

/** The machine that has the rows of an instance. */
export async function nodeOf(db: Db, instanceId: number): Promise<Node> {
  const [node] = await queryRows<Node>(
    db,
    `select nodename as name, nodeport as port from pg_dist_shard_placement
     where shardid = get_shard_id_for_distribution_column('deliveries', $1::bigint)`,
    [instanceId],
  );
  return node!;
}

/**
 * Moves an instance, and those that share its shards, from its machine to another one that has instances.
 * @param mode how, as `citus_move_shard_placement` says it
 */
export async function moveInstance(db: Db, instanceId: number, mode: "auto" | "block_writes"): Promise<void> {
  const from = await nodeOf(db, instanceId);
  const others = await queryRows<Node>(
    db,
    `select nodename as name, nodeport as port from pg_dist_node
     where shouldhaveshards and isactive and (nodename, nodeport) <> ($1, $2) limit 1`,
    [from.name, from.port],
  );
  const to = others[0]!;
  await queryRows(
    db,
    `select citus_move_shard_placement(
       get_shard_id_for_distribution_column('deliveries', $1::bigint), $2, $3, $4, $5, $6::citus.shard_transfer_mode)`,
    [instanceId, from.name, from.port, to.name, to.port, mode],
  );
}

/** A server on this machine whose processes the tests may end. */
export class MortalNode {
  readonly #facts: { pid: number; data: string; config: string; bin: string };

  private constructor(facts: { pid: number; data: string; config: string; bin: string }) {
    this.#facts = facts;
  }

  /** @param url of a database on the coordinator, as a superuser whom the node takes as well */
  static async find(url: string, { name, port }: Node): Promise<MortalNode> {
    const node = new URL(withDatabase(url, "postgres"));
    node.hostname = name;
    node.port = String(port);
    const db = openDb(node.href, { connections: 1, name: "test" });
    try {
      const [facts] = await queryRows<{ pid: number; data: string; config: string; bin: string }>(
        db,
        `select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid, current_setting('data_directory') as data,
           current_setting('config_file') as config, (select setting from pg_config where name = 'BINDIR') as bin`,
      );
      return new MortalNode(facts!);
    } finally {
      await db.destroy();
    }
  }

  /** Ends it as a machine ends that loses its power: nothing is said to anybody. */
  kill(): void {
    this.#signal("SIGKILL");
  }

  /** Has it stand still while its kernel goes on: connections are taken, and nothing answers. */
  hang(): void {
    this.#signal("SIGSTOP");
  }

  goOn(): void {
    this.#signal("SIGCONT");
  }

  #signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    const { pid } = this.#facts;
    const children = () =>
      (spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" }).stdout.match(/\d+/g) ?? []).map(
        Number,
      );
    const before = children();
    process.kill(pid, signal);
    // Who was made meanwhile is found now; who ended with it no longer takes the signal.
    for (const child of new Set([...before, ...children()])) {
      try {
        process.kill(child, signal);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  }

  /** Starts it again, which waits until what it left behind has ended and what it had promised is there again. */
  async restart(): Promise<void> {
    const { data, config, bin } = this.#facts;
    const { uid, gid } = statSync(data);
    for (let attempt = 1; ; attempt += 1) {
      try {
        execFileSync(
          `${bin}/pg_ctl`,
          ["-D", data, "-l", "/dev/null", "-o", `-c config_file=${config}`, "-w", "start"],
          {
            ...{ uid, gid, cwd: "/", stdio: "ignore" },
          },
        );
        return;
      } catch (error) {
        if (attempt === 50) throw error;
        await sleep(200);
      }
    }
  }
}
