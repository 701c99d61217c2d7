/**
 * Whether every reader takes the same addresses from the value of a From or Sender field (RFC 5322 §3.4). Readers differ
 * on what the grammar forbids: text after `>`, a second `<`, an address where a name should be, a quote or comment
 * without an end. What one of them judges, another would show as somebody else.
 * @param value of the field, unfolded
 */
export function isUnambiguous(value: string): boolean {
  const bare = withoutQuotesAndComments(value);
  return bare?.split(/[,;]/).every((part) => part.trim() === "" || isListed(part)) ?? false;
}

/** A mailbox, or the first of a group after the group's name (RFC 5322 §3.4: `name: mailboxes;`). */
function isListed(part: string): boolean {
  const colon = part.lastIndexOf(":");
  if (/[<>@]/.test(part.slice(0, Math.max(colon, 0)))) return false;
  const mailbox = part.slice(colon + 1);
  return mailbox.trim() === "" ? colon >= 0 : isMailbox(mailbox);
}

/** A name before the angle brackets may not hold an `@`, unless it is the very address that they enclose. */
function isMailbox(mailbox: string): boolean {
  const parts = /^([^<>]*)<([^<>]*)>\s*$/.exec(mailbox);
  if (!parts) return /^\s*[^\s<>@]+@[^\s<>@]+\s*$/.test(mailbox);
  const [, name = "", address = ""] = parts;
  return isAddress(address) && (!name.includes("@") || name.trim() === address.trim());
}

const isAddress = (text: string) => /^\s*[^\s@]+@[^\s@]+\s*$/.test(text);

/** Quoted strings become one letter each, comments a space; undefined when one of them has no end. */
function withoutQuotesAndComments(value: string): string | undefined {
  let bare = "";
  let depth = 0;
  let quoted = false;
  for (let place = 0; place < value.length; place += 1) {
    const character = value[place];
    if (character === "\\" && (quoted || depth > 0)) place += 1;
    else if (quoted) quoted = character !== '"';
    else if (character === "(") depth += 1;
    else if (depth > 0) {
      if (character === ")") depth -= 1;
      if (depth === 0) bare += " ";
    } else if (character === '"') {
      quoted = true;
      bare += "q";
    } else bare += character;
  }
  return quoted || depth > 0 ? undefined : bare;
}
