import { EachByItself } from "../../services/platform/each-by-itself.ts";

/** What fails for one is the test's to hear of. */
export function eachThrown<Key extends string | number>(): EachByItself<Key> {
  return new EachByItself<Key>((_, error) => {
    throw error;
  });
}
