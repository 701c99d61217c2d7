import type { Area } from "./area.ts";
import { dnsArea } from "./dns/area.ts";
import { mailArea } from "./mail/area.ts";
import { operatorArea } from "./operator/area.ts";

/** The parts of the console, in the order of the navigation. */
export const AREAS: readonly Area[] = [dnsArea, mailArea, operatorArea];
