import { type Sentence, sentence } from "../../sentences.ts";
import type { WireWriter } from "../wire-writer.ts";
import { type Field, MISSING, type TokenCursor } from "./field.ts";

/** Zero degrees on the wire (RFC 1876 §2). */
const EQUATOR = 2 ** 31;
/** Altitude 0 lies 100,000 m below the reference spheroid. */
const ALTITUDE_BASE_CENTIMETRES = 10_000_000;
const MILLISECONDS_OF_DEGREE = 3_600_000;
/** Defaults of RFC 1876 §3, metres. */
const DEFAULT_SIZE = "1m";
const DEFAULT_HORIZONTAL_PRECISION = "10000m";
const DEFAULT_VERTICAL_PRECISION = "10m";

/**
 * The whole RDATA of LOC.
 * @see RFC 1876 §2 (wire), §3 (text)
 */
export const locationField: Field = {
  name: "location",
  layout: 16,
  parse(tokens, out) {
    const latitude = parseAngle(tokens, { name: "latitude", maximumDegrees: 90, positive: "N", negative: "S" });
    if (typeof latitude === "object") return latitude;
    const longitude = parseAngle(tokens, { name: "longitude", maximumDegrees: 180, positive: "E", negative: "W" });
    if (typeof longitude === "object") return longitude;
    const altitudeText = tokens.take()?.text;
    if (altitudeText === undefined) return ofPart("altitude", MISSING);
    const altitude = parseCentimetres(altitudeText);
    if (altitude === undefined || altitude < -ALTITUDE_BASE_CENTIMETRES || altitude > 4_284_967_295) {
      return sentence("no-altitude", { text: altitudeText });
    }
    const precisions: number[] = [];
    for (const initial of [DEFAULT_SIZE, DEFAULT_HORIZONTAL_PRECISION, DEFAULT_VERTICAL_PRECISION]) {
      const text = tokens.take()?.text ?? initial;
      const precision = encodePrecision(parseCentimetres(text));
      if (precision === undefined) return sentence("no-precision", { text });
      precisions.push(precision);
    }
    writeLocation(out, { latitude, longitude, altitude, precisions });
    return undefined;
  },
  format(octets) {
    const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
    const precisions = [1, 2, 3].map((offset) => formatPrecision(view.getUint8(offset)));
    const latitude = view.getUint32(4) - EQUATOR;
    const longitude = view.getUint32(8) - EQUATOR;
    if (view.getUint8(0) !== 0 || precisions.includes(undefined)) return undefined;
    if (Math.abs(latitude) > 90 * MILLISECONDS_OF_DEGREE || Math.abs(longitude) > 180 * MILLISECONDS_OF_DEGREE) {
      return undefined;
    }
    return [
      `${formatAngle(latitude)} ${latitude < 0 ? "S" : "N"}`,
      `${formatAngle(longitude)} ${longitude < 0 ? "W" : "E"}`,
      formatMetres(view.getUint32(12) - ALTITUDE_BASE_CENTIMETRES),
      ...precisions,
    ].join(" ");
  },
};

const ofPart = (part: string, reason: Sentence): Sentence => sentence("of-a-part", { part, reason });

interface AngleForm {
  readonly name: string;
  readonly maximumDegrees: number;
  readonly positive: string;
  readonly negative: string;
}

/** Thousandths of an arc second, or what is wrong. */
function parseAngle(tokens: TokenCursor, form: AngleForm): number | Sentence {
  const parts: string[] = [];
  for (let token = tokens.take(); token !== undefined; token = tokens.take()) {
    const hemisphere = token.text.toUpperCase();
    if (hemisphere === form.positive || hemisphere === form.negative) {
      const angle = angleOf(parts, form.maximumDegrees);
      if (angle === undefined) return ofPart(form.name, sentence("no-angle", { text: parts.join(" ") }));
      return hemisphere === form.positive ? angle : -angle;
    }
    parts.push(token.text);
    if (parts.length > 3) break;
  }
  const { positive, negative } = form;
  return ofPart(form.name, sentence("angle-without-end", { positive, negative }));
}

function angleOf(parts: readonly string[], maximumDegrees: number): number | undefined {
  const [degrees, minutes = "0", seconds = "0"] = parts;
  if (degrees === undefined || !/^\d{1,3}$/.test(degrees) || !/^\d{1,2}$/.test(minutes)) return undefined;
  if (!/^\d{1,2}(?:\.\d{1,3})?$/.test(seconds) || Number(minutes) > 59 || Number(seconds) >= 60) return undefined;
  const angle = Math.round((Number(degrees) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000);
  return angle <= maximumDegrees * MILLISECONDS_OF_DEGREE ? angle : undefined;
}

function parseCentimetres(text: string): number | undefined {
  const match = /^(-?\d{1,8})(?:\.(\d{1,2}))?m?$/i.exec(text);
  if (match === null) return undefined;
  const magnitude = Number(match[1]!.replace("-", "")) * 100 + Number((match[2] ?? "").padEnd(2, "0"));
  return text.startsWith("-") ? -magnitude : magnitude;
}

/** A number of centimetres as mantissa and power of ten in one octet (RFC 1876 §2). */
function encodePrecision(centimetres: number | undefined): number | undefined {
  if (centimetres === undefined || centimetres < 0 || centimetres > 9e9) return undefined;
  let mantissa = centimetres;
  let exponent = 0;
  for (; mantissa > 9; exponent += 1) mantissa = Math.floor(mantissa / 10);
  return (mantissa << 4) | exponent;
}

function formatPrecision(octet: number): string | undefined {
  const mantissa = octet >> 4;
  const exponent = octet & 15;
  if (mantissa === 0 && exponent > 0) return undefined;
  return mantissa > 9 || exponent > 9 ? undefined : formatMetres(mantissa * 10 ** exponent);
}

function writeLocation(
  out: WireWriter,
  location: { latitude: number; longitude: number; altitude: number; precisions: readonly number[] },
): void {
  out.u8(0);
  for (const precision of location.precisions) out.u8(precision);
  out.u32(EQUATOR + location.latitude);
  out.u32(EQUATOR + location.longitude);
  out.u32(ALTITUDE_BASE_CENTIMETRES + location.altitude);
}

function formatAngle(thousandths: number): string {
  const total = Math.abs(thousandths);
  const seconds = (total % 60_000) / 1000;
  return `${Math.floor(total / MILLISECONDS_OF_DEGREE)} ${Math.floor(total / 60_000) % 60} ${seconds.toFixed(3)}`;
}

function formatMetres(centimetres: number): string {
  return centimetres % 100 === 0 ? `${centimetres / 100}m` : `${(centimetres / 100).toFixed(2)}m`;
}
