import { expect, it } from "vitest";
import { checkRdataWire } from "../../../../../services/core/dns/rdata/rdata.ts";

const NAME = "016100";
const DIGEST = "ab".repeat(32);

/** By type: octets that are its RDATA, and octets that are none. What BIND's named-checkzone says of each, but for MD and MF. */
const CASES: readonly (readonly [type: number, lawful: readonly string[], unlawful: readonly string[]])[] = [
  [3, [NAME], ["", "0161", `${NAME}00`]],
  [4, [NAME], ["0101"]],
  [11, ["c000020106", "c00002010601"], ["c0000201", "c00002010600"]],
  [19, ["0431323334"], ["03313233", "046162636a", "043132333400"]],
  [24, [`${"00".repeat(18)}${NAME}01`], [`${"00".repeat(18)}${NAME}`, "00".repeat(18)]],
  [25, ["0000030501", "c0000305", `000003fd${NAME}01`], ["00000305", "c000030501", "000003fd41"]],
  [26, [`0001${NAME}${NAME}`], [`0001${NAME}`, "0101"]],
  [27, ["02313201300131"], ["0231", ""]],
  [30, [`${NAME}40`, NAME], [`${NAME}80`, `${NAME}4000`, "40"]],
  [31, ["00"], [""]],
  [32, ["00"], [""]],
  [34, ["000102", "0131"], ["00", "0161"]],
  [
    38,
    [`00${"20".repeat(16)}`, `40${"20".repeat(8)}${NAME}`],
    ["81", `40${"20".repeat(8)}`, `0d${"ff".repeat(15)}${NAME}`],
  ],
  [40, ["010203"], ["0102"]],
  [45, ["0a000101", "0a0101c000020101", `0a0301${NAME}01`], ["0a0001", "0a0101c0000201", "0a0401ff"]],
  [55, ["01020001aabb", `01020001aabb${NAME}`], ["00020001bb", "01020001aa", "01020001aabb05"]],
  [58, [`${NAME}${NAME}`], [NAME]],
  [259, [`${"00".repeat(9)}0161`], ["00".repeat(9)]],
  [260, ["0a00", "0a81c0000201", `0a03${NAME}`, "0a04ff"], ["0a", "0a0001", "0a01c00002"]],
  [32769, [`00010d02${DIGEST}`, "00010d0801"], [`00010d02${DIGEST}00`, "00010d02ab", "00010d"]],
];

it.each(CASES)("takes RDATA of TYPE%d that its RFC knows, and none else", (type, lawful, unlawful) => {
  const isTaken = (hex: string) => checkRdataWire(type, Buffer.from(hex, "hex")).ok;
  expect(lawful.filter((hex) => !isTaken(hex))).toEqual([]);
  expect(unlawful.filter(isTaken)).toEqual([]);
});

it("takes whatever octets of types that nobody knows", () => {
  expect(checkRdataWire(65_280, Buffer.from("0101", "hex")).ok).toBe(true);
});
