/** The characters that are told apart; all others are one. As the function `zone_name_parts` of PostgreSQL has them. */
const CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_./";
const KINDS = CHARACTERS.length + 1;

/** From so many letters and digits in a row on, the index of parts of names has them. */
const INDEXED_RUN = /[a-z0-9]{3}/;

/**
 * The single characters and pairs of characters that every name has which is like a pattern of LIKE.
 * @returns a text of zeros and ones, as PostgreSQL reads bits
 */
export function partsOfPattern(like: string): string {
  const bits = new Uint8Array(KINDS + KINDS * KINDS);
  for (const text of literalsOf(like)) {
    let before: number | undefined;
    for (const character of text) {
      const place = CHARACTERS.indexOf(character);
      const here = place < 0 ? KINDS - 1 : place;
      bits[here] = 1;
      if (before !== undefined) bits[KINDS + KINDS * before + here] = 1;
      before = here;
    }
  }
  return bits.join("");
}

/** Whether the index of parts of names knows of a pattern. */
export function isIndexed(like: string): boolean {
  return literalsOf(like).some((text) => INDEXED_RUN.test(text));
}

/** What stands between the wildcards of a pattern of LIKE. */
function literalsOf(like: string): string[] {
  const texts = [""];
  for (const [piece] of like.matchAll(/\\?./gsu)) {
    if (piece === "%" || piece === "_") texts.push("");
    else texts[texts.length - 1] += piece.startsWith("\\") && piece.length > 1 ? piece.slice(1) : piece;
  }
  return texts;
}
