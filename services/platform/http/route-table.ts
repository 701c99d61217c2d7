import type { Method } from "./endpoint.ts";

/** What a path leads to, and the values of the path's parameters, percent-decoded. */
export interface RouteMatch<Target> {
  readonly method: Method;
  /** As it was added. */
  readonly path: string;
  readonly target: Target;
  readonly params: Readonly<Record<string, string>>;
}

interface Route<Target> {
  readonly method: Method;
  readonly path: string;
  readonly segments: readonly string[];
  readonly target: Target;
}

/** Operations by path and method. Paths are case-sensitive; a trailing slash makes no difference. */
export class RouteTable<Target> {
  /** By number of segments: all that a path has to be compared with. */
  readonly #routes = new Map<number, Route<Target>[]>();
  /** Those whose last segment takes all the rest of a path. */
  readonly #openEnded: Route<Target>[] = [];

  /**
   * @param path segments between slashes; `:name` stands for any text that is not empty, a last `*name` for one or
   * more segments
   */
  add(method: Method, path: string, target: Target): void {
    const segments = segmentsOf(path);
    if (segments.at(-1)!.startsWith("*")) {
      this.#openEnded.push({ method, path, segments, target });
      return;
    }
    const routes = this.#routes.get(segments.length);
    const route = { method, path, segments, target };
    if (routes) routes.push(route);
    else this.#routes.set(segments.length, [route]);
  }

  /** All that a path may lead to, whatever the method, in the order of their addition. */
  matches(path: string): RouteMatch<Target>[] {
    const given = segmentsOf(path);
    const matches: RouteMatch<Target>[] = [];
    for (const { method, path: route, segments, target } of this.#routes.get(given.length) ?? []) {
      const fits = segments.every((segment, index) =>
        segment.startsWith(":") ? given[index] !== "" : segment === given[index],
      );
      if (fits) matches.push({ method, path: route, target, params: paramsOf(segments, given) });
    }
    for (const { method, path: route, segments, target } of this.#openEnded) {
      const fits =
        given.length >= segments.length &&
        segments.every((segment, index) => (/^[:*]/.test(segment) ? given[index] !== "" : segment === given[index]));
      if (!fits) continue;
      const rest = given.slice(segments.length - 1).join("/");
      matches.push({
        method,
        path: route,
        target,
        params: paramsOf(segments, [...given.slice(0, segments.length - 1), rest]),
      });
    }
    return matches;
  }
}

function segmentsOf(path: string): string[] {
  const end = path.length > 1 && path.endsWith("/") ? -1 : path.length;
  return path.slice(1, end).split("/");
}

function paramsOf(segments: readonly string[], given: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [index, segment] of segments.entries()) {
    if (/^[:*]/.test(segment)) params[segment.slice(1)] = decode(given[index]!);
  }
  return params;
}

/** What is no percent-encoding stands for itself. */
function decode(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
