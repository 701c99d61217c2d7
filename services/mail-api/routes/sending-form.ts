import type { IncomingMessage } from "node:http";
import busboy from "busboy";
import { type Attachment, isContentType } from "../../core/mail/mime.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

/** A multipart form, read whole. */
export interface SubmittedForm {
  readonly fields: Readonly<Record<string, string>>;
  /** The file fields `attach1`, `attach2`, …, in the order of the form. */
  readonly attachments: readonly Attachment[];
}

const ATTACHMENT_FIELD = /^attach\d{1,2}$/;
const MOST_HEADER_OCTETS = 8 * 1024;
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
  const formType = incoming.headers["content-type"] ?? "";
  const files: FormFile[] = [];
  const body: Buffer[] = [];
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
      else body.push(chunk);
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
        files.push({ name, filename, content: Buffer.concat(chunks), mimeType });
      });
    });
    parser.once("error", () => give(refuse(UNREADABLE)));
    parser.once("close", () =>
      give(ok({ fields, attachments: toAttachments(files, readContentTypes(Buffer.concat(body), formType)) })),
    );
    incoming.pipe(parser);
  });
}

/** A file as the parser tells it: the media type without its parameters. */
interface FormFile {
  readonly name: string;
  readonly filename: string;
  readonly content: Buffer;
  readonly mimeType: string;
}

/** @param declared is used up */
function toAttachments(files: readonly FormFile[], declared: ReadonlyMap<string, string[]>): Attachment[] {
  return files.map(({ name, filename, content, mimeType }) => {
    const written = declared.get(name)?.shift() ?? "";
    // What clients say of files that they know nothing of: then the name tells more.
    if (mimeType === "application/octet-stream") return { filename, content };
    const isWhole = isContentType(written) && written.toLowerCase().startsWith(mimeType);
    return { filename, content, contentType: isWhole ? written : mimeType };
  });
}

/** The Content-Type fields of a form's files as they were written, by the names of the form's fields, in its order. */
function readContentTypes(body: Buffer, formType: string): Map<string, string[]> {
  const types = new Map<string, string[]>();
  const [, quoted, token] = /boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(formType) ?? [];
  const delimiter = `--${quoted ?? token}\r\n`;
  for (let at = body.indexOf(delimiter); at >= 0; at = body.indexOf(delimiter, at + delimiter.length)) {
    const end = body.indexOf("\r\n\r\n", at);
    const header = body.toString("latin1", at, Math.min(end, at + MOST_HEADER_OCTETS)).replaceAll(/\r\n[ \t]+/g, " ");
    const name = /^content-disposition:.*?; *name="?(attach\d{1,2})"?(?:;| *$)/im.exec(header)?.[1];
    const type = /^content-type:(.*)$/im.exec(header)?.[1]?.trim();
    if (name !== undefined) types.set(name, [...(types.get(name) ?? []), type ?? ""]);
  }
  return types;
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
