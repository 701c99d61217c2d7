import { Router, type RouterContext } from "@koa/router";
import type { Context, Middleware, Next } from "koa";
import { allowedMethods } from "./allowed-methods.ts";

/**
 * The parameter of a path, or of its query, that is no percent-encoded UTF-8 (RFC 3986 §2.1): the router hands the one on as
 * it was written, and the other is read with U+FFFD in it; both would be taken for what they do not mean.
 */
export function garbledParam(
  { path, querystring }: { readonly path: string; readonly querystring: string },
  params: Readonly<Record<string, string>>,
): string | undefined {
  const inPath = isDecodable(path) ? undefined : Object.keys(params).find((name) => !isDecodable(params[name]!));
  if (inPath !== undefined || isDecodable(querystring)) return inPath;
  const [name = ""] = querystring
    .split("&")
    .find((part) => !isDecodable(part))!
    .split("=");
  return isDecodable(name) ? name : "query";
}

function isDecodable(text: string): boolean {
  try {
    // Its value is used: a build leaves out a call of which it knows no effect.
    return decodeURIComponent(text).length <= text.length;
  } catch {
    return false;
  }
}

/** A path up to its last segment, and that segment. */
function splitLast(path: string): readonly [before: string, last: string] {
  const slash = path.lastIndexOf("/");
  return [path.slice(0, slash), path.slice(slash + 1)];
}

/** What in a declared path stands for more than itself. */
const PATTERN = /[:*?(){}[\]+!]/;

/**
 * Finds the operation that a path is of. A router tries one declared path after the other; here it tries those alone that
 * begin as the path does, of which there are few. A last segment that is declared by name is no value of a parameter there,
 * whatever the method.
 */
export class Routes {
  readonly #segments: number;
  readonly #byHead = new Map<string, { readonly router: Router; readonly handle: Middleware }>();
  readonly #others = new Router({ sensitive: true });
  /** Last segments that are declared by name, by what stands before them. */
  readonly #named = new Map<string, Set<string>>();

  /** @param base what most declared paths begin with; they are told apart by the segment after it */
  constructor(base: string) {
    this.#segments = base.split("/").length;
  }

  register(path: string, method: string, handle: (ctx: RouterContext) => Promise<void>): void {
    const head = this.#headOf(path);
    const isPlain = head.split("/").length > this.#segments && !head.endsWith("/") && !PATTERN.test(head);
    const router = isPlain ? this.#routerOf(head) : this.#others;
    const [before, last] = splitLast(path);
    if (!PATTERN.test(last)) this.#named.set(before, (this.#named.get(before) ?? new Set()).add(last));
    router.register(path, [method], (ctx, next) => (this.#isOf(ctx.path, path) ? handle(ctx) : next()));
  }

  /** Runs the operation, or goes on where there is none. */
  middleware(): Middleware {
    const others = this.#others.routes() as unknown as Middleware;
    return (ctx: Context, next: Next) => {
      const group = this.#byHead.get(this.#headOf(ctx.path));
      return group ? group.handle(ctx, () => others(ctx, next)) : others(ctx, next);
    };
  }

  /** The methods that a path has; empty where nothing is there. */
  allowedMethods(path: string): string[] {
    const group = this.#byHead.get(this.#headOf(path));
    const routers = group ? [group.router, this.#others] : [this.#others];
    const isOf = (declared: string | RegExp) => this.#isOf(path, `${declared}`);
    return [...new Set(routers.flatMap((router) => allowedMethods(router, path, isOf)))];
  }

  /** Whether a path is of a declared one that it matches. */
  #isOf(path: string, declared: string): boolean {
    const [before, last] = splitLast(declared);
    return !PATTERN.test(last) || !this.#named.get(before)?.has(splitLast(path.replace(/\/$/, ""))[1]);
  }

  #routerOf(head: string): Router {
    let group = this.#byHead.get(head);
    if (!group) {
      const router = new Router({ sensitive: true });
      group = { router, handle: router.routes() as unknown as Middleware };
      this.#byHead.set(head, group);
    }
    return group.router;
  }

  /** The base's segments and one more, as far as the path has them. */
  #headOf(path: string): string {
    let end = 0;
    for (let segment = 0; segment < this.#segments; segment += 1) {
      end = path.indexOf("/", end + 1);
      if (end < 0) return path;
    }
    return path.slice(0, end);
  }
}
