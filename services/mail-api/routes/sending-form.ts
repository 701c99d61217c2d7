import type { IncomingMessage } from "node:http";
import busboy from "busboy";
import { type Attachment, isContentType } from "../../core/mail/mime.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { BROKEN_OFF } from "../../platform/http/request-body.ts";
import { readPartHeaders } from "../../platform/read-mime.ts";
import { MOST_ATTACHMENTS } from "./sending-fields.ts";

/** A multipart form, read whole. */
interface SubmittedForm {
  readonly fields: Readonly<Record<string, string>>;
  /** The file fields `attach1`, `attach2`, …, in the order of the form. */
  readonly attachments: readonly Attachment[];
}

const ATTACHMENT_FIELD = /^attach\d{1,2}$/;
const MOST_FIELDS = 50;
const MOST_PARTS = MOST_FIELDS + MOST_ATTACHMENTS;
/** What a decoder puts for octets that are none of the character set. */
const REPLACEMENT = "\ufffd";
const UNREADABLE = unacceptable("form-invalid");

/**
 * Reads a multipart form.
 * @param limitOctets of the whole body
 */
export async function readForm(
  incoming: IncomingMessage,
  limitOctets: number,
): Promise<Result<SubmittedForm, Refusal>> {
  if (incoming.destroyed) return BROKEN_OFF;
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
    parser.on("field", (name, value, { valueTruncated, mimeType }) => {
      if (valueTruncated) give(refuse({ kind: "too-large" }));
      if (value.includes(REPLACEMENT)) give(refuse(invalidField(name, "utf-8")));
      if (ATTACHMENT_FIELD.test(name)) files.push({ name, chunks: value === "" ? [] : [Buffer.from(value)], mimeType });
      fields[name] = value;
    });
    // What is beyond them the parser leaves out without a word.
    for (const limit of ["fieldsLimit", "filesLimit", "partsLimit"]) {
      parser.once(limit, () => give(refuse({ kind: "too-large" })));
    }
    parser.on("file", (name, file, { filename, mimeType }) => {
      const chunks: Buffer[] = [];
      if (ATTACHMENT_FIELD.test(name)) files.push({ name, filename, chunks, mimeType });
      file.on("data", (chunk: Buffer) => chunks.push(chunk));
    });
    parser.once("error", () => give(refuse(UNREADABLE)));
    parser.once("close", async () => {
      // A browser sends an empty part for an input without a file.
      const nameless = files.find(({ filename, chunks }) => !filename && chunks.length > 0);
      if (nameless) return give(refuse(invalidField(nameless.name, "file-name-needed")));
      const declared = await readContentTypes(Buffer.concat(body), formType);
      give(ok({ fields, attachments: toAttachments(files, declared) }));
    });
    incoming.pipe(parser);
  });
}

/** A file as the parser tells it. */
interface FormFile {
  readonly name: string;
  /** None where an input was left without a file. */
  readonly filename?: string;
  readonly chunks: readonly Buffer[];
  /** The media type without its parameters; `text/plain` where none is written that can be read. */
  readonly mimeType: string;
}

/** @param declared is used up */
function toAttachments(files: readonly FormFile[], declared: ReadonlyMap<string, string[]>): Attachment[] {
  return files.flatMap(({ name, filename, chunks, mimeType }) => {
    const written = declared.get(name)?.shift() ?? mimeType;
    if (!filename) return [];
    const content = Buffer.concat(chunks);
    // The name tells more than a client that knows nothing of the file, or that writes no type.
    const isTold = mimeType !== "application/octet-stream" && written.toLowerCase().startsWith(mimeType);
    if (!isTold) return { filename, content };
    return { filename, content, contentType: isContentType(written) ? written : mimeType };
  });
}

/**
 * The Content-Type fields of a form's files as they were written, by the names of the form's fields, in its order: the
 * parser of forms leaves out their parameters.
 */
async function readContentTypes(body: Buffer, formType: string): Promise<Map<string, string[]>> {
  const types = new Map<string, string[]>();
  for (const header of await readPartHeaders(body, formType, MOST_PARTS)) {
    const name = /^content-disposition:.*?; *name="?(attach\d{1,2})"?(?:;| *$)/im.exec(header)?.[1];
    const type = /^content-type:(.*)$/im.exec(header)?.[1]?.trim();
    if (name !== undefined) types.set(name, [...(types.get(name) ?? []), type ?? ""]);
  }
  return types;
}

function openParser(incoming: IncomingMessage): busboy.Busboy | undefined {
  // The parser reads URL-encoded forms as well.
  if (!/^multipart\/form-data *(?:;|$)/i.test(incoming.headers["content-type"] ?? "")) return undefined;
  try {
    return busboy({
      headers: incoming.headers,
      defParamCharset: "utf8",
      // One part more, so that as many as may be are not too many.
      limits: {
        fields: MOST_FIELDS,
        files: MOST_ATTACHMENTS,
        parts: MOST_PARTS + 1,
        fieldSize: 2 ** 20,
        headerPairs: 20,
      },
    });
  } catch {
    return undefined; // a form without a boundary
  }
}
