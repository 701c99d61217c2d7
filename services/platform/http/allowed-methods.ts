import type { Router } from "@koa/router";

/** What an `Allow` says of a path, empty where nothing is there. RFC 9110 §9.3.2: what has GET has HEAD. */
export function allowedMethods(router: Router, path: string): string[] {
  return [...new Set(router.match(path, "").path.flatMap(({ methods }) => methods))];
}
