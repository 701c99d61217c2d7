import { constants, createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, unwatchFile, watchFile } from "node:fs";
import { join } from "node:path";
import type { Config } from "./config/config.ts";
import { writeFileOnce } from "./config/secret.ts";
import type { Observe } from "./observability/observation.ts";

/** PEM texts of a server's certificate (chain) and private key. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate that stays current: its files may be replaced while it is in use. */
export interface ServerCertificate {
  current(): CertificatePair;
  /** Calls `listener` with each later pair that fits together; a broken one is reported, and the old one stays. */
  onChange(listener: (pair: CertificatePair) => void): void;
  /** Stops watching the files. */
  close(): void;
}

/**
 * Forward secrecy and authenticated encryption only (RFC 9325 §4.2), TLS 1.3's suites among them as node wants it. For
 * whom credentials or private zones are sent to; servers that hand over mail find a poor cipher better than none.
 */
export const MODERN_CIPHERS = [
  ...["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"],
  ...["ECDHE+AESGCM", "ECDHE+CHACHA20"],
].join(":");

/** Of every listener (RFC 9325 §3.1.1). In one more handshake on a connection, a client has the server do most of the work. */
export const TLS_SERVER = { minVersion: "TLSv1.2", secureOptions: constants.SSL_OP_NO_RENEGOTIATION } as const;

const WATCH_INTERVAL_MS = 5_000;
const SELF_SIGNED_DAYS = 3_650;

/**
 * The certificate of the SMTP services and of DNS over TLS: PALOMAR_TLS_CERT and PALOMAR_TLS_KEY, or a self-signed one
 * made once into the data folder.
 * @throws when configured files are missing, or do not belong together
 */
export async function openCertificate(config: Config, observe: Observe): Promise<ServerCertificate> {
  const files = config.tls ?? (await selfSignedFiles(config));
  let pair = readPair(files);
  const listeners: ((pair: CertificatePair) => void)[] = [];
  const reload = () => {
    try {
      const read = readPair(files);
      if (digestOf(read) === digestOf(pair)) return;
      pair = read;
      observe({ kind: "certificate-reloaded", level: "info", file: files.certPath });
      for (const listener of listeners) listener(pair);
    } catch (error) {
      // Certificate and key are replaced one after the other: the second change comes right behind.
      observe({ kind: "certificate-not-reloaded", level: "warn", file: files.certPath, err: error });
    }
  };
  const watched = [files.certPath, files.keyPath];
  for (const file of watched) watchFile(file, { interval: WATCH_INTERVAL_MS, persistent: false }, reload);
  return {
    current: () => pair,
    onChange: (listener) => listeners.push(listener),
    close: () => {
      for (const file of watched) unwatchFile(file, reload);
    },
  };
}

/** What is wrong with a certificate and its key, by variable, once both files can be read; undefined: nothing. */
export function judgeCertificate({ certPath, keyPath }: CertificateFiles): string | undefined {
  const [cert, key] = [certPath, keyPath].map((path) => readFileSync(path));
  const certificate = attempt(() => new X509Certificate(cert!));
  if (certificate === undefined) return `PALOMAR_TLS_CERT: ${certPath} holds no PEM certificate`;
  const ownKey = attempt(() => createPrivateKey(key!));
  if (ownKey === undefined) return `PALOMAR_TLS_KEY: ${keyPath} holds no PEM private key without a passphrase`;
  if (certificate.checkPrivateKey(ownKey)) return undefined;
  return `PALOMAR_TLS_KEY: ${keyPath} is not the key of PALOMAR_TLS_CERT, ${certPath}`;
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

interface CertificateFiles {
  readonly certPath: string;
  readonly keyPath: string;
}

function readPair({ certPath, keyPath }: CertificateFiles): CertificatePair {
  const pair = { cert: readFileSync(certPath, "utf8"), key: readFileSync(keyPath, "utf8") };
  if (!new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key))) {
    throw new Error(`${keyPath} is not the key of ${certPath}`);
  }
  return pair;
}

/** One file holds both, so that two services that start at once can never mix halves of two pairs. */
async function selfSignedFiles({ dataDir, hostname }: Config): Promise<CertificateFiles> {
  const file = join(dataDir, "self-signed.pem");
  if (existsSync(file)) return { certPath: file, keyPath: file };
  const { generate } = await import("selfsigned");
  const made = await generate([{ name: "commonName", value: hostname }], {
    algorithm: "sha256",
    keyType: "ec",
    notAfterDate: new Date(Date.now() + SELF_SIGNED_DAYS * 86_400_000),
    extensions: [
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: hostname },
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
  });
  mkdirSync(dataDir, { recursive: true });
  writeFileOnce(file, made.private + made.cert);
  return { certPath: file, keyPath: file };
}

function digestOf({ cert, key }: CertificatePair): string {
  return createHash("sha256").update(cert).update(key).digest("hex");
}
