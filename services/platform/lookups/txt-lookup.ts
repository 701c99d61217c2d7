import type { HostPort } from "../config/config-values.ts";
import { makeDnsResolver } from "./resolver-server.ts";

/** Texts of a name's TXT records, each joined; none when there are none, or when nobody says so in time. */
export type LookUpTexts = (name: string) => Promise<readonly string[]>;

/** As {@link LookUpTexts}; undefined where nobody says so in time, or not surely. @param server null: the system's */
export async function makeSureTxtLookup(
  server: HostPort | null,
): Promise<(name: string) => Promise<readonly string[] | undefined>> {
  const resolver = await makeDnsResolver(server);
  return async (name) => {
    try {
      return (await resolver.resolveTxt(name)).map((strings) => strings.join(""));
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      return ["ENOTFOUND", "ENODATA"].includes(code) ? [] : undefined;
    }
  };
}

/** @param server resolver to ask; null: the system's */
export async function makeTxtLookup(server: HostPort | null): Promise<LookUpTexts> {
  const lookUp = await makeSureTxtLookup(server);
  // RFC 8461 §5.1: no record that can be had is no record
  return async (name) => (await lookUp(name)) ?? [];
}
