import { describe, expect, test } from "vitest";
import { type ContactStop, placeEntry, type Standing } from "../../../../services/core/mail/suppression.ts";

const NOWHERE: Standing = { row: undefined, whitelisted: false, contact: undefined };
const stop = (reason: string, note = ""): ContactStop => ({ reason, note, since: null });
const contact = (invalid?: ContactStop, unsubscribed?: ContactStop): Standing => ({
  ...NOWHERE,
  contact: { id: 1, invalid, unsubscribed },
});
const white = (standing: Standing): Standing => ({ ...standing, whitelisted: true });

describe("an entry goes", () => {
  test.each([
    ["invalid", "", NOWHERE, "row, new"],
    ["whitelist", "", NOWHERE, "whitelist, new"],
    ["whitelist", "", white(NOWHERE), "whitelist"],
    ["invalid", "", { ...NOWHERE, row: "unsubscribed" }, "row"],
    ["invalid", "", white(NOWHERE), "whitelisted"],
    ["complaint", "", white(NOWHERE), "whitelisted"],
    ["unsubscribed", "", white(NOWHERE), "row, new"],
    ["by-hand", "", white(contact()), "row, new"],
    ["invalid", "", white({ ...NOWHERE, row: "invalid" }), "row"],
    ["invalid", "", contact(), "contact, new, says more"],
    ["invalid", "", white(contact()), "whitelisted"],
    ["invalid", "", white(contact(stop("hard-bounces"))), "contact"],
    ["invalid", "x", white(contact(stop("hard-bounces"))), "whitelisted"],
    ["invalid", "x", contact(stop("brought-in", "x")), "contact"],
    ["invalid", "y", contact(stop("brought-in", "x")), "contact, says more"],
    ["complaint", "", contact(stop("brought-in", "x")), "contact, says more"],
    ["complaint", "", contact(stop("complaint")), "contact"],
    ["unsubscribed", "", contact(), "contact, new, says more"],
    ["unsubscribed", "x", contact(undefined, stop("brought-in")), "contact, says more"],
    ["unsubscribed", "x", contact(undefined, stop("all")), "contact"],
  ] as const)("%s (%s) of %j: %s", (kind, note, standing, expected) => {
    const placed = placeEntry(standing, kind, { note });
    const told =
      placed === "whitelisted"
        ? placed
        : [
            placed.place,
            ...(placed.isNew ? ["new"] : []),
            ...(placed.saysMore && placed.place === "contact" ? ["says more"] : []),
          ].join(", ");
    expect(told).toBe(expected);
  });

  test("and the next one finds it there", () => {
    const first = placeEntry(contact(), "complaint", { note: "asked by phone" });
    const standing = first === "whitelisted" ? NOWHERE : first.after;
    expect(standing).toEqual(contact(stop("complaint", "asked by phone")));
    expect(placeEntry(standing, "invalid", { note: "" })).toMatchObject({ isNew: false, saysMore: false });
    expect(placeEntry(standing, "invalid", { note: "x" })).toMatchObject({
      after: { contact: { invalid: { reason: "complaint", note: "x" } } },
    });
  });
});
