import { type Sentence, sentence } from "../../sentences.ts";

/** Recipients that have a last outcome, or were accepted, and how many of them went wrong in some way. */
interface ShareCounts {
  readonly tried: number;
  readonly wrong: number;
}

/** So many per cent are too many, once there are enough: one of three says nothing. */
interface ShareRule {
  readonly leastTried: number;
  readonly leastWrong: number;
  readonly percent: number;
}

/** Whether too large a share went wrong. */
export function isAboveShare({ tried, wrong }: ShareCounts, { leastTried, leastWrong, percent }: ShareRule): boolean {
  return tried >= leastTried && wrong >= leastWrong && wrong * 100 >= tried * percent;
}

/** What an instance is watched for. */
export const DETECTORS = ["complaints", "hardBounces", "unknownAddresses", "rise", "newCountry"] as const;
export type Detector = (typeof DETECTORS)[number];

/** What follows: the instance is held, or its operator and owner are only told. */
export const DETECTOR_ACTIONS = ["hold", "tell", "off"] as const;
export type DetectorAction = (typeof DETECTOR_ACTIONS)[number];

interface Rule {
  readonly action: DetectorAction;
}

/** A share of what was tried within the last minutes. */
type WindowRule = Rule & ShareRule & { readonly windowMinutes: number };

/** The last hour against the busiest one of the instance's own history. */
interface RiseRule extends Rule {
  /** Recipients of an hour that are too few to matter. */
  readonly leastSent: number;
  readonly factor: number;
  readonly historyDays: number;
  /** A younger instance has no history: its ramp bounds it. */
  readonly leastAgeDays: number;
}

/** A credential that was used from one country for so long, and is used from another. */
interface NewCountryRule extends Rule {
  readonly settledHours: number;
}

/** How instances are watched (config/guard.json). */
export interface BehaviourPolicy {
  readonly complaints: WindowRule;
  readonly hardBounces: WindowRule;
  readonly unknownAddresses: WindowRule;
  readonly rise: RiseRule;
  readonly newCountry: NewCountryRule;
}

/** What is known of an instance, of each window since it was last released. */
export interface Behaviour {
  readonly complaints: ShareCounts;
  readonly hardBounces: ShareCounts;
  readonly unknownAddresses: ShareCounts;
  /** Recipients accepted in the last hour, in the busiest hour of the history, and the instance's age. */
  readonly rise: { readonly sent: number; readonly busiest: number; readonly ageDays: number };
  readonly newPlaces: readonly NewPlace[];
}

/** A credential that is used from a country that it was not known from. */
export interface NewPlace {
  /** `campaign <numid>`, or `instance key`. */
  readonly credential: string;
  readonly country: string;
  /** Where it was used before, and since when, in hours. */
  readonly known: readonly { readonly country: string; readonly hours: number }[];
}

/** Something that an instance does and should not. */
export interface Finding {
  readonly detector: Detector;
  readonly action: "hold" | "tell";
  readonly reason: Sentence;
}

/** What speaks against an instance. @param own actions that differ for it */
export function judgeBehaviour(
  behaviour: Behaviour,
  policy: BehaviourPolicy,
  own: Readonly<Partial<Record<Detector, DetectorAction>>> = {},
): Finding[] {
  const shares = (["complaints", "hardBounces", "unknownAddresses"] as const).flatMap((detector) => {
    const rule = policy[detector];
    const counts = behaviour[detector];
    if (!isAboveShare(counts, rule)) return [];
    const values = { wrong: counts.wrong, tried: counts.tried, limit: rule.percent };
    return [{ detector, reason: sentence(SHARE_SENTENCES[detector], values) }];
  });
  const found = [
    ...shares,
    ...judgeRise(behaviour.rise, policy.rise).map((reason) => ({ detector: "rise" as const, reason })),
    ...behaviour.newPlaces
      .flatMap((place) => judgePlace(place, policy.newCountry))
      .map((reason) => ({ detector: "newCountry" as const, reason })),
  ];
  return found.flatMap(({ detector, reason }) => {
    const action = own[detector] ?? policy[detector].action;
    return action === "off" ? [] : [{ detector, action, reason }];
  });
}

const SHARE_SENTENCES = {
  complaints: "guard-complaints",
  hardBounces: "guard-hard-bounces",
  unknownAddresses: "guard-unknown-addresses",
} as const;

function judgeRise({ sent, busiest, ageDays }: Behaviour["rise"], rule: RiseRule): Sentence[] {
  if (ageDays < rule.leastAgeDays || sent < rule.leastSent || sent < busiest * rule.factor) return [];
  return [sentence("guard-rise", { sent, busiest })];
}

function judgePlace({ credential, country, known }: NewPlace, { settledHours }: NewCountryRule): Sentence[] {
  const settled = known.filter(({ hours }) => hours >= settledHours).map((one) => one.country);
  if (settled.length === 0) return [];
  return [sentence("guard-new-country", { credential, country, known: settled.toSorted().join(", ") })];
}
