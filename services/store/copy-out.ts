import type pg from "pg";

/** The signature, flags and extension length before the first row of binary COPY data. */
const HEADER_OCTETS = 19;
const FIRST_SIGNATURE_OCTET = 0x50;
/** The field count that ends binary COPY data. */
const TRAILER = -1;

/** A row of `copy … to stdout (format binary)`, valid only while it is handled. */
export class CopyRow {
  octets: Buffer = Buffer.alloc(0);
  /** Where each field's octets begin and how many there are; −1 for null. */
  readonly starts: number[] = [];
  readonly lengths: number[] = [];

  int4(field: number): number {
    return this.octets.readInt32BE(this.starts[field]!);
  }

  int8(field: number): number {
    const start = this.starts[field]!;
    return this.octets.readInt32BE(start) * 2 ** 32 + this.octets.readUInt32BE(start + 4);
  }
}

/**
 * Streams the rows of a query through binary COPY, which costs a fraction of what result rows do and holds one row at
 * a time.
 * @param query a SELECT without parameters
 * @param onRow called for each row, synchronously
 */
export function copyOut(client: pg.Client, query: string, onRow: (row: CopyRow) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(new CopyOutQuery(`copy (${query}) to stdout (format binary)`, onRow, { resolve, reject }));
  });
}

interface Settle {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What pg's client calls as the server's messages come in. */
class CopyOutQuery {
  readonly #text: string;
  readonly #onRow: (row: CopyRow) => void;
  readonly #settle: Settle;
  readonly #row = new CopyRow();
  #failure: unknown;

  constructor(text: string, onRow: (row: CopyRow) => void, settle: Settle) {
    this.#text = text;
    this.#onRow = onRow;
    this.#settle = settle;
  }

  submit(connection: pg.Connection): void {
    connection.query(this.#text);
  }

  /** The server sends whole rows, one a message (PostgreSQL's protocol, COPY operations). */
  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    if (this.#failure !== undefined) return;
    try {
      if (readRow(chunk, this.#row)) this.#onRow(this.#row);
    } catch (error) {
      // Thrown from here it would end the process; the rest of the rows is let pass.
      this.#failure = error;
    }
  }

  handleError(error: unknown): void {
    this.#failure ??= error;
    this.#settle.reject(this.#failure);
  }

  handleReadyForQuery(): void {
    if (this.#failure === undefined) this.#settle.resolve();
    else this.#settle.reject(this.#failure);
  }

  handleCommandComplete(): void {}
}

/** Finds the fields of a row; false for the trailer. */
function readRow(chunk: Buffer, row: CopyRow): boolean {
  // A row begins with a count of fields, which is small, the header with a letter.
  let position = chunk[0] === FIRST_SIGNATURE_OCTET ? HEADER_OCTETS : 0;
  if (position === chunk.length) return false;
  const fields = chunk.readInt16BE(position);
  if (fields === TRAILER) return false;
  position += 2;
  row.octets = chunk;
  for (let field = 0; field < fields; field += 1) {
    const length = chunk.readInt32BE(position);
    row.starts[field] = position + 4;
    row.lengths[field] = length;
    position += 4 + Math.max(length, 0);
  }
  return true;
}
