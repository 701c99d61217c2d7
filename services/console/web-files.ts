import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import type { Context } from "koa";

/** A file of the built pages, with what it is called on the wire. */
interface WebFile {
  readonly type: string;
  readonly octets: Buffer;
  readonly encodings: readonly { readonly name: "br" | "gzip"; readonly octets: Buffer }[];
  /** Its name changes with its content, so it may be kept for ever. */
  readonly immutable: boolean;
}

const INDEX = "index.html";

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
};

/**
 * Scripts come from here and nowhere else, and nothing is loaded from strangers. Inline styles are allowed, since
 * archived messages, shown in a sandboxed frame, inherit this policy and carry theirs inline.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-src 'self' blob:",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

/** Paths that are not pages: an address below them that does not exist is an error, not the first page. */
const NOT_PAGES = /^\/(admin|docs|openapi\.json|assets)(\/|$)/;

/** Serves the built pages of a folder: files by their names, and for any other address of a visitor's the first page. */
export class WebFiles {
  readonly #files: ReadonlyMap<string, WebFile>;

  private constructor(files: ReadonlyMap<string, WebFile>) {
    this.#files = files;
  }

  /** Reads the folder once: it is built before the start, and small. @returns undefined when it was not built */
  static async load(folder: string): Promise<WebFiles | undefined> {
    if (!existsSync(join(folder, INDEX))) return undefined;
    const names = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = new Map<string, WebFile>();
    for (const entry of names) {
      const type = TYPES[extname(entry.name)];
      if (!entry.isFile() || type === undefined) continue;
      const path = join(entry.parentPath, entry.name);
      files.set(path.slice(folder.length), {
        type,
        octets: await readFile(path),
        encodings: [["br", ".br"] as const, ["gzip", ".gz"] as const].flatMap(([name, suffix]) =>
          existsSync(path + suffix) ? [{ name, octets: readFileSync(path + suffix) }] : [],
        ),
        immutable: /\/assets\/[^/]*-[A-Za-z0-9_-]{8,}\.\w+$/.test(path),
      });
    }
    return new WebFiles(files);
  }

  /** @returns false when there is nothing at this path */
  async serve(ctx: Context): Promise<boolean> {
    const file = this.#files.get(ctx.path) ?? (isPage(ctx) ? this.#files.get(`/${INDEX}`) : undefined);
    if (!file) return false;
    ctx.set("Content-Security-Policy", CONTENT_SECURITY_POLICY);
    ctx.set("Referrer-Policy", "same-origin");
    ctx.set("Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache");
    ctx.type = file.type;
    ctx.vary("Accept-Encoding");
    const encoded = file.encodings.find(({ name }) => ctx.acceptsEncodings(name, "identity") === name);
    if (encoded) ctx.set("Content-Encoding", encoded.name);
    ctx.status = 200;
    ctx.body = encoded?.octets ?? file.octets;
    return true;
  }
}

/** An address that the pages' own router understands: where a browser goes to says that it wants HTML. */
function isPage(ctx: Context): boolean {
  return ctx.path === "/" || (!NOT_PAGES.test(ctx.path) && ctx.get("Accept").includes("text/html"));
}
