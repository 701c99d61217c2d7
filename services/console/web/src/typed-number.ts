/** Digits as the number that the API wants; anything else as it is, for the API to say what is wrong with it. */
export function wholeNumber(text: string): number | string {
  return /^\d+$/.test(text.trim()) ? Number(text) : text;
}

/** Any number, fractions and what is less than nothing too; anything else as it is: what is no number is not to count as none. */
export function anyNumber(text: string): number | string {
  return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
}
