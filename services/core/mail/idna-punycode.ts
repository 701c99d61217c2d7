/** Punycode, the spelling of Unicode labels in DNS (RFC 3492), without any mapping or case folding. */

const BASE = 36;
const MIN_THRESHOLD = 1;
const MAX_THRESHOLD = 26;
const SKEW = 38;
const DAMP = 700;
const INITIAL_BIAS = 72;
const INITIAL_CODE_POINT = 0x80;
const MAX_CODE_POINT = 0x10ffff;
const DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789";

/** @returns the label without the `xn--` prefix, in lower case (RFC 3492 §6.3) */
export function encodePunycode(label: string): string {
  const codePoints = Array.from(label, (character) => character.codePointAt(0) ?? 0);
  const basic = codePoints.filter((codePoint) => codePoint < INITIAL_CODE_POINT);
  let output = String.fromCodePoint(...basic);
  if (basic.length > 0) output += "-";

  let handled = basic.length;
  let codePoint = INITIAL_CODE_POINT;
  let delta = 0;
  let bias = INITIAL_BIAS;
  while (handled < codePoints.length) {
    const next = Math.min(...codePoints.filter((candidate) => candidate >= codePoint));
    delta += (next - codePoint) * (handled + 1);
    codePoint = next;
    for (const candidate of codePoints) {
      if (candidate < codePoint) delta += 1;
      if (candidate !== codePoint) continue;
      output += encodeDelta(delta, bias);
      bias = adaptBias(delta, handled + 1, handled === basic.length);
      delta = 0;
      handled += 1;
    }
    delta += 1;
    codePoint += 1;
  }
  return output;
}

/**
 * @param punycode lower-case ASCII without the `xn--` prefix
 * @returns null when it is no Punycode (RFC 3492 §6.2)
 */
export function decodePunycode(punycode: string): string | null {
  const delimiter = punycode.lastIndexOf("-");
  const output = [...punycode.slice(0, Math.max(delimiter, 0))];
  let position = delimiter + 1;

  let codePoint = INITIAL_CODE_POINT;
  let insertAt = 0;
  let bias = INITIAL_BIAS;
  while (position < punycode.length) {
    const before = insertAt;
    let weight = 1;
    for (let k = BASE; ; k += BASE) {
      const digit = DIGITS.indexOf(punycode.charAt(position));
      if (position >= punycode.length || digit < 0) return null;
      position += 1;
      insertAt += digit * weight;
      if (insertAt > Number.MAX_SAFE_INTEGER) return null;
      const threshold = thresholdAt(k, bias);
      if (digit < threshold) break;
      weight *= BASE - threshold;
    }
    const length = output.length + 1;
    bias = adaptBias(insertAt - before, length, before === 0);
    codePoint += Math.floor(insertAt / length);
    insertAt %= length;
    if (codePoint > MAX_CODE_POINT) return null;
    output.splice(insertAt, 0, String.fromCodePoint(codePoint));
    insertAt += 1;
  }
  return output.join("");
}

function encodeDelta(delta: number, bias: number): string {
  let digits = "";
  let rest = delta;
  for (let k = BASE; ; k += BASE) {
    const threshold = thresholdAt(k, bias);
    if (rest < threshold) return digits + DIGITS.charAt(rest);
    digits += DIGITS.charAt(threshold + ((rest - threshold) % (BASE - threshold)));
    rest = Math.floor((rest - threshold) / (BASE - threshold));
  }
}

function thresholdAt(k: number, bias: number): number {
  return Math.min(Math.max(k - bias, MIN_THRESHOLD), MAX_THRESHOLD);
}

/** RFC 3492 §6.1 */
function adaptBias(delta: number, handled: number, isFirst: boolean): number {
  let rest = Math.floor(delta / (isFirst ? DAMP : 2));
  rest += Math.floor(rest / handled);
  let k = 0;
  while (rest > ((BASE - MIN_THRESHOLD) * MAX_THRESHOLD) / 2) {
    rest = Math.floor(rest / (BASE - MIN_THRESHOLD));
    k += BASE;
  }
  return k + Math.floor(((BASE - MIN_THRESHOLD + 1) * rest) / (rest + SKEW));
}
