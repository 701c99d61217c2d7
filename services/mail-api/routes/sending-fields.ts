import { z } from "zod";
import { lineOfText } from "../../core/mail/contact-input.ts";

/** As the API's sample sends it, too, and as forms have all flags. */
const flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);

const MOST_COPIES = 1_000;
export const MOST_ATTACHMENTS = 100;

/** What every operation that sends may say. Empty texts stand for the campaign's. */
const common = {
  campana_id: z.int(),
  email: flag,
  remitente: z.string().optional(),
  remitente_nombre: lineOfText.optional(),
  asunto: lineOfText.optional(),
  reuse_eeid: z.boolean().optional(),
  eeid: z.guid().optional(),
};

const contact = z.object({ email: z.string(), nombre: lineOfText.optional(), apellido: lineOfText.optional() });

const one = {
  contacto: contact,
  "reply-to": z.string().optional(),
  copia: z
    .array(z.object({ cc_email: z.string(), cc_nombre: lineOfText.optional(), cc_apellido: lineOfText.optional() }))
    .max(MOST_COPIES)
    .optional(),
  copia_oculta: z
    .array(z.object({ bcc_email: z.string() }))
    .max(MOST_COPIES)
    .optional(),
};

const many = { contactos: z.array(contact).min(1) };

const inline = {
  html: z.string().min(1),
  adjuntos: z
    .array(z.object({ filename: lineOfText.min(1), content: z.array(z.string()) }))
    .max(MOST_ATTACHMENTS)
    .optional(),
  archive: z.boolean().optional(),
};

const uri = { html_url: z.string().optional() };

export const oneInline = z.object({ ...common, ...one, ...inline });
export const oneUri = z.object({ ...common, ...one, ...uri });
export const manyInline = z.object({ ...common, ...many, ...inline });
export const manyUri = z.object({ ...common, ...many, ...uri });

/** Of a multipart form: everything is text, and a form sends unless it says otherwise. */
export const oneForm = z.object({
  ...common,
  campana_id: z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number),
  email: flag.default(true),
  reuse_eeid: flag.optional(),
  contacto: z.string(),
  ...uri,
});

const file = z.file().optional();

/** The form with its files, of which there may be more than those that have a name here. */
export const oneFormWithFiles = oneForm.extend({
  attach1: file,
  attach2: file.meta({ description: `and so on: \`attach\` with one or two digits, up to ${MOST_ATTACHMENTS} files` }),
});

/** Why `archive` is refused with 403. */
export const LICENCE_NEEDED = "`licencia de archivo requerida`: `archive` needs a licence";

export const sentReply = z.object({ status: z.literal("ok"), sent: z.int(), eeid: z.string() });

/** The fields of any of the operations, as far as they are told apart only by what is there. */
export interface SendingFields {
  readonly campana_id: number;
  readonly email: boolean;
  readonly remitente?: string | undefined;
  readonly remitente_nombre?: string | undefined;
  readonly asunto?: string | undefined;
  readonly reuse_eeid?: boolean | undefined;
  readonly eeid?: string | undefined;
  readonly contacto?: ContactFields;
  readonly contactos?: readonly ContactFields[];
  readonly "reply-to"?: string | undefined;
  readonly copia?:
    | readonly { cc_email: string; cc_nombre?: string | undefined; cc_apellido?: string | undefined }[]
    | undefined;
  readonly copia_oculta?: readonly { bcc_email: string }[] | undefined;
  readonly html?: string;
  readonly html_url?: string | undefined;
  readonly adjuntos?: readonly { filename: string; content: string[] }[] | undefined;
  readonly archive?: boolean | undefined;
}

export interface ContactFields {
  readonly email: string;
  readonly nombre?: string | undefined;
  readonly apellido?: string | undefined;
}
