import { generate } from "selfsigned";

/** A fresh self-signed certificate for localhost, in PEM. */
export async function createCertificate(): Promise<{ cert: string; key: string }> {
  const { cert, private: key } = await generate([{ name: "commonName", value: "localhost" }], { keyType: "ec" });
  return { cert, key };
}
