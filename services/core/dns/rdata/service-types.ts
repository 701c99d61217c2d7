import { sentence } from "../../sentences.ts";
import { TYPE } from "../rr-types.ts";
import { nameField, numberField, stringField } from "./basic-fields.ts";
import { type Field, type FieldProblem, fieldEnd, type RdataShape } from "./field.ts";
import { countGroups } from "./regular-expression.ts";
import { serviceParametersField } from "./service-parameters.ts";

const serviceBinding: RdataShape = {
  fields: [numberField("SvcPriority", 16), nameField("TargetName"), serviceParametersField],
};

/** Service location: SRV (RFC 2782), NAPTR (RFC 3403), SVCB and HTTPS (RFC 9460). */
export const SERVICE_TYPES: ReadonlyMap<number, RdataShape> = new Map<number, RdataShape>([
  [
    TYPE.SRV,
    { fields: [numberField("priority", 16), numberField("weight", 16), numberField("port", 16), nameField("target")] },
  ],
  [
    TYPE.NAPTR,
    {
      fields: [
        numberField("order", 16),
        numberField("preference", 16),
        naptrFlagsField(),
        stringField("services"),
        stringField("regexp"),
        nameField("replacement"),
      ],
      check: checkNaptr,
    },
  ],
  [TYPE.SVCB, serviceBinding],
  [TYPE.HTTPS, serviceBinding],
]);

/** Flags are letters and digits (RFC 3403 §4.1). */
function naptrFlagsField(): Field {
  const field = stringField("flags");
  return {
    ...field,
    parse(tokens, out, scope) {
      const text = tokens.peek()?.text ?? "";
      return FLAGS.test(text) ? field.parse(tokens, out, scope) : sentence("no-naptr-flags", { text });
    },
    format(octets, form) {
      const flags = Buffer.from(octets.subarray(1)).toString("latin1");
      return FLAGS.test(flags) ? field.format(octets, form) : undefined;
    },
  };
}

const FLAGS = /^[A-Za-z0-9]*$/;

function checkNaptr(rdata: Uint8Array): FieldProblem | undefined {
  const services = fieldEnd("counted", rdata, 4)!;
  const regexp = fieldEnd("counted", rdata, services)!;
  const text = Buffer.from(rdata.subarray(regexp + 1, fieldEnd("counted", rdata, regexp))).toString("latin1");
  return isSubstitution(text) ? undefined : { field: "regexp", ...sentence("no-substitution", { text }) };
}

/**
 * Whether the text is empty or a substitution: delimiter, regular expression, delimiter, replacement, delimiter, flags; back
 * references only to groups of the expression. BIND as a secondary refuses a zone with another.
 * @see RFC 3402 §3.2
 */
function isSubstitution(text: string): boolean {
  if (text === "") return true;
  const delimiter = text[0]!;
  if (/[0-9i\\\0]/.test(delimiter)) return false;
  const [expression, replacement, flags, ...more] = splitUnescaped(text.slice(1), delimiter);
  if (!expression || replacement === undefined || !/^i?$/.test(flags ?? "?") || more.length > 0) return false;
  const groupCount = countGroups(expression);
  if (groupCount === undefined) return false;
  return [...replacement.matchAll(/\\(\d)/g)].every(([, group]) => Number(group) >= 1 && Number(group) <= groupCount);
}

/** Parts a text at a character, except where a backslash stands before it. */
function splitUnescaped(text: string, separator: string): string[] {
  const parts = [""];
  for (let position = 0; position < text.length; position += 1) {
    if (text[position] === separator) {
      parts.push("");
    } else {
      const isEscape = text[position] === "\\" && position + 1 < text.length;
      parts.push(parts.pop()! + (isEscape ? text.slice(position, position + 2) : text[position]));
      if (isEscape) position += 1;
    }
  }
  return parts;
}
