/**
 * A URL, or undefined when the text is none. `URL.canParse` would tell the same, but Node 20 and 22 take hosts beyond
 * ASCII for none there as soon as V8 has optimised it.
 * @param base what a relative URL is resolved against
 */
export function parseUrl(text: string, base?: URL): URL | undefined {
  try {
    return new URL(text, base);
  } catch {
    return undefined;
  }
}

/** Whether a user's name or password stands in front of a URL's host (RFC 3986 §3.2.1). */
export function hasCredentials(text: string): boolean {
  const { username, password } = parseUrl(text) ?? { username: "", password: "" };
  return username !== "" || password !== "";
}

/** @returns undefined when the text is no URL, or one of another scheme */
export function parseHttpUrl(text: string): URL | undefined {
  const url = parseUrl(text);
  return url?.protocol === "http:" || url?.protocol === "https:" ? url : undefined;
}

/** Whether somebody may name this as a URL. One with controls is none, although a parser does without them. */
export function isHttpUrl(text: string): boolean {
  return !/[\x00-\x1f\x7f]/.test(text) && parseHttpUrl(text) !== undefined;
}
