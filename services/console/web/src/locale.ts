/** The variant of a language that a reader prefers. @param preferred tags such as `es-MX`, the most wanted first */
export function variantOf(language: string, preferred: readonly string[]): string {
  return preferred.find((tag) => tag.split("-", 1)[0] === language) ?? language;
}
