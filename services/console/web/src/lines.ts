/** What the lines of a text say, commas counting as line ends; empty ones are left out. */
export function linesOf(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
