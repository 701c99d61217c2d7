import type { Texts } from "../en/index.ts";
import { dns } from "./dns.ts";
import { mail } from "./mail.ts";
import { operator } from "./operator.ts";
import { problems } from "./problems.ts";
import { shell } from "./shell.ts";

/** The interface in Spanish. */
export const es: Texts = { shell, dns, mail, operator, problems };
