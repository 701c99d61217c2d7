import { dns } from "./dns.ts";
import { mail } from "./mail.ts";
import { operator } from "./operator.ts";
import { problems } from "./problems.ts";
import { shell } from "./shell.ts";

/** The interface in English: also the shape that every other language has. */
export const en = { shell, dns, mail, operator, problems };

export type Texts = typeof en;
