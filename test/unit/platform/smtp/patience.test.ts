import { describe, expect, it } from "vitest";
import { SMTP_LIMITS } from "../../../../services/platform/smtp/limits.ts";
import { SmtpPatience } from "../../../../services/platform/smtp/patience.ts";

const RECIPIENTS = 10;
const patient = () => new SmtpPatience(SMTP_LIMITS, RECIPIENTS, 0);
const SECOND = 1_000;

/** Looks every five seconds until the dialogue is ended. @returns the second of its end */
function endOf(
  patience: SmtpPatience,
  look: (second: number) => Parameters<SmtpPatience["look"]>[0],
  from = 0,
): number {
  for (let second = from; second < 10_000; second += 5) {
    if (patience.look(look(second), 0, second * SECOND)) return second;
  }
  return Number.POSITIVE_INFINITY;
}

describe("time", () => {
  it.each([
    ["command", 305],
    ["rest of line", 65],
    ["data", 65],
    ["server", Number.POSITIVE_INFINITY],
  ] as const)("while we wait for %s it ends after %d s", (awaited, seconds) => {
    expect(endOf(patient(), () => awaited)).toBe(seconds);
  });

  it("begins anew with each command, and not with each octet", () => {
    const patience = patient();
    for (let second = 0; second < 1_500; second += 200) {
      patience.takeCommand();
      expect(patience.look("command", 0, second * SECOND)).toBeUndefined();
    }
    expect(endOf(patience, () => "rest of line", 1_500)).toBe(1_565);
  });

  it("does not begin anew with each message: half an hour without one ends a dialogue, but never the message itself", () => {
    const patience = patient();
    const busy = (second: number) => {
      patience.takeCommand();
      return second % 200 === 0 ? "rest of line" : "command";
    };
    expect(endOf(patience, busy)).toBe(1_805);
    const rewarded = patient();
    rewarded.countMessage(1_000 * SECOND);
    expect(endOf(rewarded, busy, 1_000)).toBe(2_805);
    const sending = patient();
    for (let second = 0; second < 5_000; second += 5) {
      expect(sending.look("data", second * 1_000, second * SECOND)).toBeUndefined();
    }
  });

  it("a message that falls behind its pace by more than the grace ends, however much came before", () => {
    const patience = patient();
    patience.look("data", 0, 0);
    expect(patience.look("data", 20_000_000, 5 * SECOND)).toBeUndefined();
    expect(patience.look("data", 20_000_010, 65 * SECOND)).toBeUndefined();
    expect(patience.look("data", 20_000_012, 70 * SECOND)).toMatchObject({ code: 421, enhancedStatus: "4.4.2" });
  });
});

describe("commands", () => {
  const useUp = (patience: SmtpPatience, verb: string, code: number) => {
    for (let count = 0; count < 10_000; count += 1) {
      if (patience.takeCommand()) return count;
      patience.countReply(verb, code);
    }
    return Number.POSITIVE_INFINITY;
  };

  it.each([
    ["NOOP", 250, 100],
    ["RSET", 250, 100],
    ["VRFY", 252, 100],
    ["HELP", 214, 100],
    ["EHLO", 250, 100],
    ["MAIL", 550, 100],
    ["DATA", 503, 100],
    ["AUTH", 535, 100],
    ["RCPT", 250, 10 * RECIPIENTS],
    ["RCPT", 550, 10 * RECIPIENTS],
  ])("%s answered %i ends the dialogue after %i", (verb, code, most) => {
    const patience = patient();
    expect(useUp(patience, verb, code)).toBe(most);
    expect(patience.takeCommand()).toMatchObject({ code: 421, enhancedStatus: "4.7.0" });
  });

  const COUNTED = [
    ["commands that do not exist", "NONSENSE", 500, 10],
    ["commands without a login", "NOOP", 250, 20],
  ] as const;
  it.each(COUNTED)("%s: the last is answered with the end of the dialogue", (_what, verb, code, most) => {
    const patience = new SmtpPatience(SMTP_LIMITS, RECIPIENTS, 0, true);
    for (let count = 1; count < most; count += 1) expect(patience.countReply(verb, code)).toBeUndefined();
    expect(patience.countReply(verb, code)).toMatchObject({ code: 421, enhancedStatus: "4.7.0" });
  });

  it("a login is counted neither before nor afterwards", () => {
    const patience = new SmtpPatience(SMTP_LIMITS, RECIPIENTS, 0, true);
    for (let count = 0; count < 30; count += 1) expect(patience.countReply("AUTH", 535)).toBeUndefined();
    patience.countReply("AUTH", 235);
    for (let count = 0; count < 30; count += 1) expect(patience.countReply("NOOP", 250)).toBeUndefined();
  });

  it("a message sets all counts back, and so what is needed for one never ends a dialogue", () => {
    const patience = patient();
    for (let message = 0; message < 1_000; message += 1) {
      for (const [verb, code] of [...MESSAGE, ["RSET", 250], ["NOOP", 250]] as const) {
        expect(patience.takeCommand()).toBeUndefined();
        patience.countReply(verb, code);
        if (verb === "DATA" && code === 250) patience.countMessage(message);
      }
    }
  });

  const MESSAGE = [
    ["MAIL", 250],
    ["RCPT", 250],
    ["RCPT", 550],
    ["DATA", 354],
    ["DATA", 250],
  ] as const;
});
