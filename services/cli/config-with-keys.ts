import { type Config, environmentWith, loadConfig } from "../platform/config/config.ts";

/** The configuration of a service; the supervisor has checked it and put the database into it. */
export function configWith(keys: string): Config {
  const loaded = loadConfig(environmentWith({ PALOMAR_KEYS: keys }));
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}
