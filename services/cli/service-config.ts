import { type Config, environmentWith, loadConfig } from "../platform/config/config.ts";

/** What only the supervisor knows: the text of a service's key file, and what the service connects with. */
export interface ServiceSecrets {
  readonly keys: string;
  readonly databaseUrl: string;
}

/** The configuration of a service; the supervisor has checked the rest of it. */
export function configWith({ keys, databaseUrl }: ServiceSecrets): Config {
  const loaded = loadConfig(environmentWith({ PALOMAR_KEYS: keys, DATABASE_URL: databaseUrl }));
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}
