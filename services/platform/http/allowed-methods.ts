import type { Router } from "@koa/router";

/**
 * What an `Allow` says of a path, empty where nothing is there. RFC 9110 §9.3.2: what has GET has HEAD.
 * @param isOf whether the path is one that was declared so, beside matching it
 */
export function allowedMethods(router: Router, path: string, isOf = (_declared: string | RegExp) => true): string[] {
  const declared = router.match(path, "").path.filter((layer) => isOf(layer.path));
  return [...new Set(declared.flatMap(({ methods }) => methods))];
}
