import type { Context } from "koa";

/** A transparent GIF89a of one pixel. */
const PIXEL = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");

/** Answers with the image, whatever became of the request: a broken picture helps nobody. */
export function sendPixel(ctx: Context): void {
  ctx.status = 200;
  ctx.type = "image/gif";
  ctx.body = PIXEL;
}
