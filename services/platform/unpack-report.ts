import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { fromBuffer } from "yauzl";

/** Entries of a ZIP archive that are looked at for the one that is a report. */
const MOST_ENTRIES = 20;
const BASE64 = /^[A-Za-z0-9+/]{16,}={0,2}$/;
/** Of an attachment that is base64 where nothing says so. */
const MOST_ENCODINGS = 2;

/** What an attachment is, by its first octets: what its fields say of it is often wrong. */
export type Packing = "zip" | "gzip" | "xml" | "json" | "other";

export function packingOf(content: Buffer): Packing {
  if (content.subarray(0, 4).equals(ZIP)) return "zip";
  if (content.subarray(0, 2).equals(GZIP)) return "gzip";
  // A byte order mark, and UTF-16's other octets, are passed over.
  const [first] = /[^\s\0\xef\xbb\xbf\xfe\xff]/.exec(content.subarray(0, 1_024).toString("latin1")) ?? [];
  return first === "<" ? "xml" : first === "{" ? "json" : "other";
}

/** An attachment without encodings that nobody mentioned; as it is where it is something known. */
export function withoutBase64(content: Buffer): Buffer {
  let plain = content;
  for (let times = 0; times < MOST_ENCODINGS && packingOf(plain) === "other"; times++) {
    const text = plain.toString("latin1").replace(/\s+/g, "");
    if (!BASE64.test(text)) break;
    plain = Buffer.from(text, "base64");
  }
  return plain;
}

/**
 * The content of an archive, piece by piece: whoever reads stops when it is too much. Nothing is unpacked ahead.
 * @throws where the archive is none, or has nothing in it
 */
export async function openPacked(content: Buffer): Promise<Readable> {
  switch (packingOf(content)) {
    case "gzip":
      return pipeInto(Readable.from([content]), createGunzip());
    case "zip":
      return openZip(content);
    default:
      return Readable.from([content]);
  }
}

function pipeInto(source: Readable, gunzip: ReturnType<typeof createGunzip>): Readable {
  source.on("error", (error) => gunzip.destroy(error));
  return source.pipe(gunzip);
}

/** The first entry that is a file and no note of the archiver. */
function openZip(content: Buffer): Promise<Readable> {
  return new Promise((resolve, reject) => {
    fromBuffer(content, { lazyEntries: true }, (failure, archive) => {
      if (failure) return reject(failure);
      let entries = 0;
      archive.on("error", reject);
      archive.on("end", () => reject(new Error("no file in the archive")));
      archive.on("entry", (entry) => {
        entries += 1;
        if (entries > MOST_ENTRIES) return reject(new Error("too many files in the archive"));
        if (/(?:\/$|^__MACOSX\/|(?:^|\/)\.)/.test(entry.fileName)) return archive.readEntry();
        archive.openReadStream(entry, (broken, stream) => (broken ? reject(broken) : resolve(stream)));
      });
      archive.readEntry();
    });
  });
}

const ZIP = Buffer.from("PK\x03\x04", "latin1");
const GZIP = Buffer.from([0x1f, 0x8b]);
