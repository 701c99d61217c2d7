import { expect, test } from "vitest";
import { fairShares } from "../../../../../services/core/mail/queue/lane-shares.ts";

const claims = (...has: readonly number[]) => has.map((each) => ({ has: each, most: 42 }));

test.each([
  { what: "equals get equal shares", claims: claims(0, 0, 0, 0), free: 48, shares: [12, 12, 12, 12] },
  { what: "of equals the first get what is over", claims: claims(0, 0, 0), free: 5, shares: [2, 2, 1] },
  { what: "who has least comes first", claims: claims(40, 0), free: 2, shares: [0, 2] },
  { what: "and is made equal to others", claims: claims(3, 0), free: 5, shares: [1, 4] },
  { what: "nobody gets above the most", claims: claims(0), free: 48, shares: [42] },
  { what: "what one may not have another gets", claims: claims(41, 41), free: 1, shares: [1, 0] },
  { what: "who has too much gets nothing", claims: claims(60, 0), free: 48, shares: [0, 42] },
  { what: "nothing is free", claims: claims(0, 1), free: 0, shares: [0, 0] },
  { what: "more claims than there is", claims: claims(0, 0, 0), free: 2, shares: [1, 1, 0] },
  { what: "no claims", claims: [], free: 3, shares: [] },
])("$what", ({ claims, free, shares }) => {
  expect(fairShares(claims, free)).toEqual(shares);
});
