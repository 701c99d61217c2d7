import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type BounceResult, interpret } from "../../../services/operations/mail/interpret.ts";

/**
 * What some 90 mail systems send back, in their layouts and languages. The labels were given before the rules were
 * run, so these files measure how far the rules carry; to teach them a wording, see services/bounce/README.md.
 */
const fixture = (name: string) =>
  readFileSync(new URL(`bounces/${name}`, import.meta.url), "utf8").replace(/^(?:#.*\n)+/, "");
const octets = (text: string) => Buffer.from(text.replaceAll("\n", "\r\n"));

describe("replies", () => {
  test.each(
    fixture("replies.txt")
      .trim()
      .split("\n")
      .map((line) => {
        const [reason, hardness, status, ...words] = line.split("|");
        return { reason, hardness, status, words: words.join("|") };
      }),
  )("$reason, $hardness: $words", async ({ reason, hardness, status, words }) => {
    const statusField = status === "-" ? "" : `Status: ${status}\n`;
    const diagnostic = words.startsWith("X-Unix;") ? words : `smtp; ${words}`;
    const fields = `Final-Recipient: rfc822; jane@example.net\nAction: failed\n${statusField}Diagnostic-Code: ${diagnostic}\n`;
    const header = "From: MAILER-DAEMON@mx.example.org\nSubject: Delivery report";
    const { results } = await interpret(octets(report(header, "Your message could not be delivered.\n", fields)));
    expect(results.map((result) => [result.reason, result.hard])).toEqual([[reason, hardness === "hard"]]);
  });
});

describe("messages", () => {
  const blocks = fixture("messages.txt").split(/^=====\n/m);

  test.each(blocks.map((block) => [block.slice(2, block.indexOf("\n")), block] as const))(
    "%s",
    async (title, block) => {
      const lines = block.split("\n").slice(1);
      const expected = lines.filter((line) => line.startsWith("> "));
      // The labels stand before the message, which may quote in the same way.
      const labels = expected.slice(
        0,
        lines.findIndex((line) => !line.startsWith("> ")),
      );
      const finding = await interpret(octets(message(lines.slice(labels.length).join("\n"))));
      expect([finding.kind, ...finding.results.map(labelOf)]).toEqual([title.split(":")[0], ...labels]);
    },
  );
});

function labelOf({ recipient, action, isGivenUp, reason, hard }: BounceResult): string {
  return `> ${recipient || "-"} ${action} ${reason}${hard ? " hard" : ""}${isGivenUp ? " given-up" : ""}`;
}

/** A header of its own, then the text; after %%% the fields of a delivery-status part. */
function message(block: string): string {
  const [text = "", fields] = block.split(/^%%%\n/m);
  const bodyStart = text.indexOf("\n\n");
  const header = text.slice(0, bodyStart);
  const body = text.slice(bodyStart + 2);
  if (fields !== undefined) return report(header, body, fields);
  const type = /^content-type:/im.test(header) ? "" : "\nContent-Type: text/plain; charset=utf-8";
  return `${header}${type}\n\n${body}`;
}

function report(header: string, notice: string, fields: string): string {
  const parts = [
    `Content-Type: text/plain; charset=utf-8\n\n${notice}`,
    `Content-Type: message/delivery-status\n\n${fields}`,
    "Content-Type: message/rfc822\n\nFrom: news@example.org\nTo: never-picked@example.com\nSubject: News\n\nHello\n",
  ];
  const body = parts.map((part) => `--r\n${part}\n`).join("");
  return `${header}\nContent-Type: multipart/report; report-type=delivery-status; boundary=r\n\n${body}--r--\n`;
}
