/** The segments of an address's path, decoded: first the empty one before its slash; undefined when it is mistyped (`%A`). */
export function pathSegments(path: string): string[] | undefined {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return undefined;
  }
}
