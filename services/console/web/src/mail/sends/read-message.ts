import PostalMime from "postal-mime";

/** A message for reading. */
export interface ReadableMessage {
  /** The headers that people look at, decoded. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly html: string | undefined;
  readonly text: string | undefined;
  readonly attachments: readonly { readonly name: string; readonly octets: number }[];
}

const SHOWN_HEADERS = ["from", "to", "cc", "reply-to", "subject", "date"];

/** Takes a message (RFC 5322) apart. Images that it carries itself are put in their places; others stay remote. */
export async function readMessage(source: Uint8Array): Promise<ReadableMessage> {
  const message = await PostalMime.parse(source, { attachmentEncoding: "base64" });
  const embedded = new Map(
    message.attachments.flatMap(({ contentId, mimeType, content }) =>
      contentId ? [[contentId.replace(/^<|>$/g, ""), `data:${mimeType};base64,${content}`] as const] : [],
    ),
  );
  return {
    headers: message.headers
      .filter(({ key }) => SHOWN_HEADERS.includes(key))
      .map(({ originalKey, value }) => [originalKey, value] as const),
    html: message.html?.replaceAll(/\bcid:([^"'\s)>]+)/g, (reference, id: string) => embedded.get(id) ?? reference),
    text: message.text,
    attachments: message.attachments
      .filter(({ disposition }) => disposition === "attachment")
      .map(({ filename, content }) => ({
        name: filename ?? "",
        octets: Math.floor((String(content).length * 3) / 4),
      })),
  };
}
