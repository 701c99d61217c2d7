/**
 * Arrays for statements that take the columns of thousands of rows, in PostgreSQL's binary format (`array_recv`), which
 * pg sends as it is. As text each element would be quoted here, and read there octet by octet.
 */

/** Of the catalogue's types, as `pg_type` numbers them. */
const OIDS = { bigint: 20, integer: 23, text: 25, jsonb: 3802 } as const;
const HEADER_OCTETS = 20;
const LENGTH_OCTETS = 4;
const NULL_LENGTH = -1;
const JSONB_VERSION = 1;

/** `bigint[]` of safe integers. */
export function bigints(values: readonly (number | null)[]): Buffer {
  const octets = Buffer.allocUnsafe(HEADER_OCTETS + values.length * (LENGTH_OCTETS + 8));
  let end = HEADER_OCTETS;
  for (const value of values) {
    if (value === null) {
      end = octets.writeInt32BE(NULL_LENGTH, end);
      continue;
    }
    end = octets.writeInt32BE(8, end);
    end = octets.writeInt32BE(Math.floor(value / 2 ** 32), end);
    end = octets.writeUInt32BE(value >>> 0, end);
  }
  return finish(octets, end, { oid: OIDS.bigint, values });
}

/** `integer[]` */
export function integers(values: readonly number[]): Buffer {
  const octets = Buffer.allocUnsafe(HEADER_OCTETS + values.length * (LENGTH_OCTETS + 4));
  let end = HEADER_OCTETS;
  for (const value of values) {
    end = octets.writeInt32BE(4, end);
    end = octets.writeInt32BE(value, end);
  }
  return finish(octets, end, { oid: OIDS.integer, values });
}

/** `text[]` */
export function texts(values: readonly (string | null)[]): Buffer {
  return stringsOf(OIDS.text, values);
}

/** `jsonb[]` of values that JSON has; of null it is SQL's. */
export function jsons(values: readonly unknown[]): Buffer {
  return stringsOf(
    OIDS.jsonb,
    values.map((value) => (value === null ? null : JSON.stringify(value))),
  );
}

/** A column without the nulls at its end, which `unnest` adds again beside a longer one. */
export function trimNulls<T>(values: readonly (T | null)[]): readonly (T | null)[] {
  return values.slice(0, values.findLastIndex((value) => value !== null) + 1);
}

function stringsOf(oid: number, values: readonly (string | null)[]): Buffer {
  const versionOctets = oid === OIDS.jsonb ? 1 : 0;
  let most = HEADER_OCTETS;
  for (const value of values) {
    most += LENGTH_OCTETS + versionOctets + (value === null ? 0 : Buffer.byteLength(value));
  }
  const octets = Buffer.allocUnsafe(most);
  let end = HEADER_OCTETS;
  for (const value of values) {
    const lengthAt = end;
    end += LENGTH_OCTETS;
    if (value !== null) {
      if (versionOctets > 0) end = octets.writeUInt8(JSONB_VERSION, end);
      end += octets.write(value, end);
    }
    octets.writeInt32BE(value === null ? NULL_LENGTH : end - lengthAt - LENGTH_OCTETS, lengthAt);
  }
  return finish(octets, end, { oid, values });
}

/** Writes the header: one dimension, whether there are nulls, the type, how many elements, the first one's index. */
function finish(
  octets: Buffer,
  end: number,
  { oid, values }: { readonly oid: number; readonly values: readonly unknown[] },
): Buffer {
  const header = [1, values.includes(null) ? 1 : 0, oid, values.length, 1];
  for (const [index, word] of header.entries()) octets.writeInt32BE(word, index * 4);
  return octets.subarray(0, end);
}
