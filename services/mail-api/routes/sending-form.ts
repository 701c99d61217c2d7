import type { IncomingMessage } from "node:http";
import busboy from "busboy";
import type { Attachment } from "../../core/mail/mime.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

/** A multipart form, read whole. */
export interface SubmittedForm {
  readonly fields: Readonly<Record<string, string>>;
  /** The file fields `attach1`, `attach2`, …, in the order of the form. */
  readonly attachments: readonly Attachment[];
}

const ATTACHMENT_FIELD = /^attach\d{1,2}$/;
const UNREADABLE = unacceptable("formulario invalido");

/**
 * Reads a multipart form.
 * @param limitOctets of the whole body
 */
export async function readForm(
  incoming: IncomingMessage,
  limitOctets: number,
): Promise<Result<SubmittedForm, Refusal>> {
  if (Number(incoming.headers["content-length"] ?? 0) > limitOctets) return refuse({ kind: "too-large" });
  const parser = openParser(incoming);
  if (parser === undefined) return refuse(UNREADABLE);
  const fields: Record<string, string> = {};
  const attachments: Attachment[] = [];
  let received = 0;

  return new Promise((resolve) => {
    const give = (outcome: Result<SubmittedForm, Refusal>) => {
      incoming.unpipe(parser);
      incoming.resume();
      resolve(outcome);
    };
    incoming.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received > limitOctets) give(refuse({ kind: "too-large" }));
    });
    incoming.once("aborted", () => give(refuse(UNREADABLE)));
    parser.on("field", (name, value) => {
      fields[name] = value;
    });
    parser.on("file", (name, file, { filename, mimeType }) => {
      const chunks: Buffer[] = [];
      file.on("data", (chunk: Buffer) => chunks.push(chunk));
      file.once("end", () => {
        if (!ATTACHMENT_FIELD.test(name) || filename === undefined) return;
        attachments.push({ filename, content: Buffer.concat(chunks), contentType: mimeType });
      });
    });
    parser.once("error", () => give(refuse(UNREADABLE)));
    parser.once("close", () => give(ok({ fields, attachments })));
    incoming.pipe(parser);
  });
}

function openParser(incoming: IncomingMessage): busboy.Busboy | undefined {
  try {
    return busboy({
      headers: incoming.headers,
      defParamCharset: "utf8",
      limits: { fields: 50, files: 20, fieldSize: 2 ** 20, headerPairs: 20 },
    });
  } catch {
    return undefined; // no multipart body, or one without a boundary
  }
}
