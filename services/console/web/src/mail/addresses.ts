import { pathOf } from "../http.ts";

/** The address of a page of an instance: `mailPage("acme", "contacts")`. */
export const mailPage = (instance: string, ...segments: readonly (string | number)[]): string =>
  pathOf("mail", instance, ...segments);

/** The console's HTTP of an instance, below `/admin/v1`. */
export const instancePath = (instance: string, ...segments: readonly (string | number)[]): string =>
  pathOf("instances", instance, ...segments);

/** The mail API of an instance, through the session. */
export const mailApiPath = (instance: string, ...segments: readonly (string | number)[]): string =>
  pathOf("mail", instance, ...segments);
