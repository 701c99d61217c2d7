import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withProcessLock } from "../platform/process-lock.ts";
import type { Addresses, AddressName } from "../platform/service.ts";
import { readAddresses, type WrittenAddresses } from "./data-folder.ts";

/** The listeners that `addresses.json` names, in its order; null where one is off, but for those of {@link OPTIONAL}. */
const LISTED = [
  "mail_api",
  "dns_api",
  "dns_api_tls",
  "console",
  "tracking",
  "tracking_tls",
  "dns",
  "dns_tls",
  "dns_https",
  "submission",
  "submissions",
  "mx",
  "metrics",
] as const satisfies readonly AddressName[];

/** Named only while they are on. */
const OPTIONAL: ReadonlySet<AddressName> = new Set(["dns_api_tls", "tracking_tls", "dns_https"]);

/** `<data dir>/addresses.json`: there while a stack is ready. Stacks of single services share one data folder and file. */
export class AddressesFile {
  readonly #dataDir: string;
  readonly #path: string;
  #own: Addresses = {};

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#path = join(dataDir, "addresses.json");
  }

  /** @param whole no other stack has a part in the folder, so what the file said before is out of date */
  async write(addresses: Addresses, whole: boolean): Promise<void> {
    this.#own = addresses;
    await this.#alone(() => this.#store({ ...(whole ? {} : this.#read()), ...addresses }));
  }

  /** Removes what this stack wrote and no other has written over, and the file with the last address. */
  async remove(): Promise<void> {
    await this.#alone(() => this.#removeOwn()).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOSPC") throw error;
      // There is no room for a lock: others on this disk write nothing either.
      this.#removeOwn();
    });
  }

  #removeOwn(): void {
    const left = { ...this.#read() };
    for (const name of LISTED) {
      if (left[name] === this.#own[name]) delete left[name];
    }
    if (Object.values(left).some((address) => address !== null)) this.#store(left);
    else rmSync(this.#path, { force: true });
  }

  /** No other stack reads or writes it meanwhile. */
  #alone(work: () => void): Promise<void> {
    return withProcessLock(`${this.#path}.lock`, work);
  }

  #read(): WrittenAddresses {
    return readAddresses({ dataDir: this.#dataDir }) ?? {};
  }

  #store(addresses: WrittenAddresses): void {
    const named = LISTED.filter((name) => addresses[name] || !OPTIONAL.has(name));
    const listed = Object.fromEntries(named.map((name) => [name, addresses[name] ?? null]));
    const draft = `${this.#path}.${process.pid}`;
    writeFileSync(draft, `${JSON.stringify(listed, null, 2)}\n`);
    renameSync(draft, this.#path);
  }
}
