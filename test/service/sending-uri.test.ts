import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { simpleParser } from "mailparser";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ApiAnswer } from "../support/api-client.ts";
import { addTestInstance } from "../support/instances.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

let web: Server;
let base: string;
let stack: MailStack;
let closed: MailStack;
let hits = 0;

type Reply = (response: ServerResponse, request: IncomingMessage) => void;

const html =
  (text: string | Buffer, type = "text/html; charset=utf-8"): Reply =>
  (response) => {
    response.setHeader("Content-Type", type);
    response.end(text);
  };
const redirect =
  (status: number, location: string): Reply =>
  (response) => {
    response.writeHead(status, { Location: location }).end();
  };
const PAGES: Record<string, Reply> = {
  "/page": html("<p>Ñandú for XYZNOMBREXYZ</p>"),
  "/bare": (response) => void response.end("<p>bare</p>"),
  "/moved": redirect(301, "/found"),
  "/found": redirect(302, "/page"),
  "/see-other": redirect(303, "/page"),
  "/loop": redirect(302, "/loop"),
  "/to-file": redirect(302, "file:///etc/passwd"),
  "/to-private": redirect(302, "http://10.1.2.3/"),
  "/guarded": (response, request) => {
    const isKnown = request.headers.authorization === `Basic ${Buffer.from("ana:p@ss ñ").toString("base64")}`;
    if (isKnown) html("<p>for who knows</p>")(response, request);
    else response.writeHead(401).end();
  },
  "/to-guarded": redirect(302, "/guarded"),
  "/to-other": (response, request) => redirect(302, `http://${request.headers.host}/guarded`)(response, request),
  "/missing": (response) => void response.writeHead(404).end(),
  "/latin1": html(Buffer.from([0x3c, 0x70, 0x3e, 0xf1]), "text/html"),
  "/said-latin1": html("<p>", "text/html; charset=iso-8859-1"),
  "/empty": html(" \n"),
  "/short": (response) => {
    response.writeHead(200, { "content-type": "text/html", "content-length": 500 });
    response.write("<p>half", () => response.destroy());
  },
  "/image": html("GIF89a", "image/gif"),
  "/huge": html(Buffer.alloc(5 * 2 ** 20 + 1, "a")),
  "/long-subject": html(`XYZNOMBREXYZ ${"ñ".repeat(988)}`, "text/plain"),
  "/subject": html("The subject for XYZNOMBREXYZ\r\nX-Evil: 1\n", "text/plain"),
};

beforeAll(async () => {
  web = createServer((request, response) => {
    hits += 1;
    const page = PAGES[request.url ?? ""];
    if (page) page(response, request);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  stack = await startMailStack(Object.values(MAIL_SERVICES), { PALOMAR_FETCH_ALLOW: "127.0.0.0/8" });
  closed = await startMailStack([MAIL_SERVICES.api]);
});
afterAll(async () => {
  await stack.stop();
  await closed.stop();
  web.close();
  expect([...stack.failures, ...closed.failures]).toEqual([]);
});

const EMAIL = "ana@uri.example.net";

async function sendUri(on: MailStack, fields: Readonly<Record<string, unknown>>, operation = "send_one_uri") {
  const campana_id = fields.campana_id ?? (await on.addCampaign());
  const contacto = { email: EMAIL, nombre: "Ana" };
  return on.call("POST", `/envio/${operation}/`, { email: true, contacto, ...fields, campana_id });
}

const newest = (eeid: string, rcptTo = EMAIL) =>
  eventually(
    async () => (await stack.call("GET", `/eeid_info/${eeid}`)).body.envio_efectivo.estado,
    (state) => state === "enviado",
  ).then(async () => simpleParser((await stack.newestOf(eeid, rcptTo)).octets));

describe("html_url", () => {
  test.each(["/page", "/moved", "/found"])("%s is fetched, redirects followed", async (path) => {
    const { body } = await sendUri(stack, { html_url: base + path });
    expect(body).toMatchObject({ status: "ok", sent: 1 });
    expect((await newest(body.eeid)).html).toContain("Ñandú for Ana");
  });

  test("user name and password of a URL go to its own server, and no further", async () => {
    const known = base.replace("//", "//ana:p%40ss%20%C3%B1@");
    for (const path of ["/guarded", "/to-guarded"]) {
      const { body } = await sendUri(stack, { html_url: known + path });
      expect(body).toMatchObject({ status: "ok", sent: 1 });
      expect((await newest(body.eeid)).html).toContain("for who knows");
    }
    for (const html_url of [`${base}/guarded`, `${known}/to-other`]) {
      expect((await sendUri(stack, { html_url })).body.on).toBe("html_url inaccesible: status 401");
    }
    const malformed = base.replace("//", "//ana:%zz@");
    expect((await sendUri(stack, { html_url: `${malformed}/guarded` })).status).toBe(400);
  });

  test("the campaign's url stands in, and one call fetches once", async () => {
    const campana_id = await stack.addCampaign({ url: `${base}/bare` });
    hits = 0;
    const contactos = [{ email: EMAIL }, { email: "eva@uri.example.net" }];
    const { body } = await sendUri(stack, { campana_id, contacto: undefined, contactos }, "send_many_uri");
    expect(body.sent).toBe(2);
    expect(hits).toBe(1);
    expect((await newest(body.eeid)).html).toContain("bare");
  });

  test.each([
    ["/missing", "status 404"],
    ["/see-other", "status 303"],
    ["/loop", "too many redirects"],
    ["/to-file", "redirect to another scheme"],
    ["/to-private", "address not allowed"],
    ["/empty", "empty"],
    ["/short", "ECONNRESET"],
    ["/latin1", "not UTF-8"],
    ["/said-latin1", "not UTF-8"],
    ["/image", "content type not supported"],
    ["/huge", "larger than 5 MiB"],
  ])("%s is refused: %s", async (path, reason) => {
    const { status, body } = await sendUri(stack, { html_url: base + path });
    expect([status, body]).toEqual([400, { status: "err", on: `html_url inaccesible: ${reason}` }]);
  });

  test.each(["", "ftp://example.org/", "javascript:alert(1)", "//example.org", "example.org"])(
    "%j is no URL to fetch",
    async (html_url) => {
      const { status, body } = await sendUri(stack, { html_url });
      expect([status, body.on]).toEqual([400, "html_url invalido"]);
    },
  );

  test("a server that does not answer is given up after ten seconds", async () => {
    const mute = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const startedAt = Date.now();
    const { body } = await sendUri(stack, { html_url: `http://127.0.0.1:${(mute.address() as AddressInfo).port}/` });
    mute.closeAllConnections();
    mute.close();
    expect(body.on).toBe("html_url inaccesible: timeout");
    expect(Date.now() - startedAt).toBeGreaterThan(9_000);
  });
});

describe("what may not be reached", () => {
  const port = () => (web.address() as AddressInfo).port;
  test.each([
    "127.0.0.1",
    "localhost",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "0.0.0.0",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.168.1.1",
    "[fe80::1]",
    "[fd00::1]",
    "[64:ff9b::7f00:1]",
  ])("%s", async (host) => {
    hits = 0;
    const { status, body } = await sendUri(closed, { html_url: `http://${host}:${port()}/page` });
    expect(status).toBe(400);
    expect(body.on).toMatch(/^html_url inaccesible: (address not allowed|host not found)$/);
    expect(hits).toBe(0);
  });
});

describe("a dynamic subject", () => {
  test("is fetched, made one line, and personalised", async () => {
    const campana_id = await stack.addCampaign({ asunto: "XYZTAG-CURLXYZ", asunto_uri: `${base}/subject` });
    const { body } = await sendUri(stack, { campana_id, html_url: `${base}/page` });
    expect((await newest(body.eeid)).subject).toBe("The subject for Ana X-Evil: 1");
  });

  test("that cannot be fetched is refused", async () => {
    const campana_id = await stack.addCampaign({ asunto: "XYZTAG-CURLXYZ", asunto_uri: `${base}/missing` });
    const { status, body } = await sendUri(stack, { campana_id, html_url: `${base}/page` });
    expect([status, body.on]).toEqual([400, "asunto_uri inaccesible: status 404"]);
  });

  test("is refused where it is longer than any subject", async () => {
    const campana_id = await stack.addCampaign({ asunto: "XYZTAG-CURLXYZ", asunto_uri: `${base}/long-subject` });
    const { status, body } = await sendUri(stack, { campana_id, html_url: `${base}/page` });
    expect([status, body.on]).toEqual([400, "asunto_uri inaccesible: must be at most 1000 characters"]);
  });
});

describe("Idempotency-Key", () => {
  const sendOnce = (fields: Readonly<Record<string, unknown>>, key: string) =>
    stack.call(
      "POST",
      "/envio/send_one_uri/",
      { email: true, contacto: { email: EMAIL }, ...fields },
      { "Idempotency-Key": key },
    );

  test("a repeated call fetches nothing again, and is answered when the pages are gone", async () => {
    const campana_id = await stack.addCampaign({ asunto: "XYZTAG-CURLXYZ", asunto_uri: `${base}/subject-once` });
    PAGES["/once"] = html("<p>once</p>");
    PAGES["/subject-once"] = html("once", "text/plain");
    const call = { campana_id, html_url: `${base}/once` };
    const first = await sendOnce(call, "uri 1");
    expect(first.body).toMatchObject({ status: "ok", sent: 1 });
    delete PAGES["/once"];
    delete PAGES["/subject-once"];
    hits = 0;
    expect(await sendOnce(call, "uri 1")).toMatchObject({ status: 200, body: first.body });
    const other = await sendOnce({ ...call, html_url: `${base}/missing` }, "uri 1");
    expect([other.status, other.body.on]).toEqual([409, "Idempotency-Key repetida"]);
    expect(hits).toBe(0);
  });

  test("calls at the same time get one answer of one fetch, refused or not", async () => {
    const campana_id = await stack.addCampaign();
    const atOnce = (html_url: string, key: string) =>
      Promise.all(Array.from({ length: 6 }, () => sendOnce({ campana_id, html_url }, key)));
    hits = 0;
    const sent = await atOnce(`${base}/page`, "uri 2");
    expect(new Set(sent.map(({ body }) => body.eeid)).size).toBe(1);
    expect(hits).toBe(1);
    const refused = await atOnce(`${base}/missing`, "uri 3");
    expect(new Set(refused.map(({ status, body }) => `${status} ${body.on}`))).toEqual(
      new Set(["400 html_url inaccesible: status 404"]),
    );
    // Nor is the key used up by it.
    expect((await sendOnce({ campana_id, html_url: `${base}/page` }, "uri 3")).status).toBe(200);
  });
});

describe("send_one_form", () => {
  async function sendForm(fields: Readonly<Record<string, string | File>>) {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    const response = await fetch(`${await stack.context.addressOf("mail_api")}/v1/envio/send_one_form/`, {
      method: "POST",
      headers: { Authorization: "key-of-the-instance" },
      body: form,
    });
    return { status: response.status, body: (await response.json()) as ApiAnswer["body"] };
  }

  test("takes files as attachments", async () => {
    const campana_id = String(await stack.addCampaign());
    const { status, body } = await sendForm({
      campana_id,
      contacto: EMAIL,
      html_url: `${base}/page`,
      attach1: new File([Buffer.from([1, 2, 0, 255])], "uno.bin", { type: "application/x-one" }),
      attach2: new File(["dos"], "dós.txt"),
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: "ok", sent: 1 });
    const { attachments, html } = await newest(body.eeid);
    expect(html).toContain("Ñandú");
    expect(attachments.map(({ filename, content }) => [filename, [...content]])).toEqual([
      ["uno.bin", [1, 2, 0, 255]],
      ["dós.txt", [...Buffer.from("dos")]],
    ]);
  });

  test("keeps what a file's Content-Type says, its parameters too", async () => {
    const campana_id = String(await stack.addCampaign());
    const form = { campana_id, contacto: EMAIL, html_url: `${base}/page` };
    const { body } = await sendForm({
      ...form,
      attach1: new File(["\r\n--x\r\nContent-Type: a/b"], "uno.dat", {
        type: "text/csv; charset=iso-8859-1; header=present",
      }),
      attach2: new File(["dos"], "dos.dat", { type: "application/x-two" }),
      attach3: new File(["tres"], "tres.png"),
    });
    const { attachments } = await newest(body.eeid);
    expect(attachments.map(({ headers }) => headers.get("content-type"))).toMatchObject([
      { value: "text/csv", params: { charset: "iso-8859-1", header: "present" } },
      { value: "application/x-two" },
      { value: "image/png" },
    ]);
  });

  /** A form as octets: clients do not write such ones. */
  async function sendRawForm(parts: readonly string[]) {
    const response = await fetch(`${await stack.context.addressOf("mail_api")}/v1/envio/send_one_form/`, {
      method: "POST",
      headers: { Authorization: "key-of-the-instance", "Content-Type": "multipart/form-data; boundary=b" },
      body: `${parts.map((part) => `--b\r\n${part}\r\n`).join("")}--b--\r\n`,
    });
    return { status: response.status, body: (await response.json()) as ApiAnswer["body"] };
  }
  const rawField = (name: string, value: string) => `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`;
  const rawFile = (name: string, type: string, content: string) =>
    `Content-Disposition: form-data; name="${name}"; filename="${name}"\r\nContent-Type: ${type}\r\n\r\n${content}`;

  test("a file's name tells its type where no type is written that can be read", async () => {
    const campana_id = String(await stack.addCampaign());
    const form = { campana_id, contacto: EMAIL, html_url: `${base}/page` };
    const file = (filename: string, ...more: string[]) =>
      [`Content-Disposition: form-data; name="attach1"; filename="${filename}"`, ...more, "", "x"].join("\r\n");
    const { status, body } = await sendRawForm([
      ...Object.entries(form).map(([name, value]) => rawField(name, value)),
      'Content-Disposition: form-data; name="attach1"; filename=""\r\n\r\n',
      file("uno.pdf"),
      file("dos.png", "Content-Type:"),
      file("tres.pdf", "Content-Type: text/plain"),
      file("cuatro.zip", "Content-Type: application/octet-stream"),
      file("cinco.png", "Content-Type: image"),
      file("seis"),
    ]);
    expect(status).toBe(200);
    const { attachments } = await newest(body.eeid);
    expect(attachments.map(({ contentType }) => contentType)).toEqual([
      ...["application/pdf", "image/png", "text/plain"],
      ...["application/zip", "image/png", "application/octet-stream"],
    ]);
  });

  test("takes the boundary within a line of a file for the file's, and counts every part", async () => {
    const fields = [rawField("campana_id", String(await stack.addCampaign())), rawField("contacto", EMAIL)];
    const lookalike = `x--b\r\n${rawFile("attach1", "application/x-evil", "")}`;
    const { status, body } = await sendRawForm([
      ...fields,
      rawField("html_url", `${base}/page`),
      rawFile("attach1", "text/csv; header=present", lookalike + "x--b\r\n".repeat(1_000)),
      rawFile("attach1", "text/plain; charset=utf-8", "dos"),
    ]);
    expect(status).toBe(200);
    const { attachments } = await newest(body.eeid);
    expect(attachments[0]!.content.length).toBe(lookalike.length + 6_000);
    expect(attachments.map(({ headers }) => headers.get("content-type"))).toMatchObject([
      { value: "text/csv", params: { header: "present" } },
      { value: "text/plain", params: { charset: "utf-8" } },
    ]);
    const refused = await sendRawForm([...fields, ...Array.from({ length: 200 }, () => "X: y\r\n\r\n")]);
    expect([refused.status, refused.body.on]).toEqual([413, "demasiado grande"]);
  });

  test("leaves no file out without a word, and no octet that is not UTF-8", async () => {
    const campana_id = String(await stack.addCampaign());
    const fields = [
      rawField("campana_id", campana_id),
      rawField("contacto", EMAIL),
      rawField("html_url", `${base}/page`),
    ];
    const unnamed = (type: string) =>
      `Content-Disposition: form-data; name="attach1"; filename=""\r\nContent-Type: ${type}\r\n\r\n`;
    for (const part of [rawField("attach1", "abc"), `${unnamed("text/plain")}abc`]) {
      const { status, body } = await sendRawForm([...fields, part]);
      expect([status, body.on]).toEqual([400, "attach1 invalido"]);
    }
    expect((await sendRawForm([...fields, unnamed("application/octet-stream")])).status).toBe(200);
    const { status, body } = await sendRawForm([...fields, rawField("asunto", "\ufffd")]);
    expect([status, body.on]).toEqual([400, "asunto invalido"]);
  });

  test("refuses more files than it takes, rather than leave some out", async () => {
    const campana_id = String(await stack.addCampaign());
    const files = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`attach${at}`, new File([`${at}`], `${at}.txt`)]));
    const form = { campana_id, contacto: EMAIL, html_url: `${base}/page` };
    const { body } = await sendForm({ ...form, ...files(100) });
    expect((await newest(body.eeid)).attachments).toHaveLength(100);
    const refused = await sendForm({ ...form, ...files(101) });
    expect([refused.status, refused.body.on]).toEqual([413, "demasiado grande"]);
    expect((await sendForm({ ...form, asunto: "a".repeat(2 ** 20 + 1) })).status).toBe(413);
  });

  test("names what is missing or wrong", async () => {
    const campana_id = String(await stack.addCampaign());
    expect((await sendForm({ contacto: EMAIL })).body.on).toBe("falta campana_id");
    expect((await sendForm({ campana_id })).body.on).toBe("falta contacto");
    expect((await sendForm({ campana_id: "one", contacto: EMAIL })).body.on).toBe("campana_id invalido");
    expect((await sendForm({ campana_id, contacto: "a@b" })).body.on).toMatch(/^invalid email /);
    const { status, body } = await stack.call("POST", "/envio/send_one_form", { campana_id, contacto: EMAIL });
    expect([status, body.on]).toEqual([400, "formulario invalido"]);
  });

  test.each(["application/x-www-form-urlencoded", "multipart/mixed; boundary=b", "multipart/form-data"])(
    "%s is no form that it takes",
    async (type) => {
      const fields = new URLSearchParams({ campana_id: String(await stack.addCampaign()), contacto: EMAIL });
      fields.set("html_url", `${base}/page`);
      const response = await fetch(`${await stack.context.addressOf("mail_api")}/v1/envio/send_one_form/`, {
        method: "POST",
        headers: { Authorization: "key-of-the-instance", "Content-Type": type },
        body: fields.toString(),
      });
      const { on } = (await response.json()) as ApiAnswer["body"];
      expect([response.status, on]).toEqual([400, "formulario invalido"]);
    },
  );
});

describe("large calls beside those of others", () => {
  const LARGE = { adjuntos: [{ filename: "a.txt", content: ["YWJj".repeat(25_000)] }] };
  const OTHERS = ["one", "another"].map((name) => ({ Authorization: `the key of ${name}` }));
  let url: string;

  beforeAll(async () => {
    for (const [index, { Authorization: key }] of OTHERS.entries()) {
      const named = { name: `other${index}`, host: `other${index}.test`, domains: [`other${index}.example.org`] };
      await addTestInstance(stack.context.db, stack.context.keyRing, { ...named, key, archive: false });
    }
    url = `${await stack.context.addressOf("mail_api")}/v1/envio/send_one_form/`;
  });

  /** A form of which only the beginning comes. */
  function beginForm(headers: Readonly<Record<string, string>>) {
    const type = { "Content-Type": "multipart/form-data; boundary=b", "Content-Length": 1_000_000 };
    const form = request(url, { method: "POST", agent: false, headers: { ...headers, ...type } });
    form.on("error", () => {});
    form.write("--b\r\n");
    return form;
  }

  /** A call of the stack's own instance. */
  async function callOwn(): Promise<void> {
    const { status, body } = await sendUri(stack, { html_url: `${base}/page`, ...LARGE });
    expect([status, body.sent]).toEqual([200, 1]);
  }

  test("pages that do not come, and forms that come slowly, hold up nobody else's", async () => {
    const mute = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const html_url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}/`;
    const calls = await Promise.all(
      OTHERS.map(async (headers, index) => {
        const remitente = `info@other${index}.example.org`;
        const campana_id = await stack.addCampaign({ remitente }, headers);
        const call = { email: true, contacto: { email: EMAIL }, campana_id, html_url, ...LARGE };
        return () => stack.call("POST", "/envio/send_one_uri/", call, headers);
      }),
    );
    const waiting = calls.map((call) => call());
    const forms = OTHERS.map(beginForm);
    await new Promise((resolve) => setTimeout(resolve, 300));
    // Ten seconds are waited for a page.
    const first = [callOwn().then(() => "own"), ...waiting.map((call) => call.then(() => "another's"))];
    expect(await Promise.race(first)).toBe("own");
    for (const form of forms) form.destroy();
    mute.closeAllConnections();
    mute.close();
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([400, 400]);
  });

  test("pages of one instance are fetched 32 at a time, and take nobody's own places", async () => {
    const held: ServerResponse[] = [];
    const slow = createServer((_, response) => void held.push(response));
    await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
    const html_url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/`;
    const calls = OTHERS.map(async (headers, index) => {
      const campana_id = await stack.addCampaign({ remitente: `info@other${index}.example.org` }, headers);
      const call = { email: true, contacto: { email: EMAIL }, campana_id, html_url };
      const answers = Array.from({ length: 40 }, () => stack.call("POST", "/envio/send_one_uri/", call, headers));
      return (await Promise.all(answers)).map(({ status }) => status);
    });
    await eventually(
      async () => held.length,
      (fetching) => fetching === 64,
    );
    // No place is left of those for everybody.
    expect((await sendUri(stack, { html_url: `${base}/page` })).status).toBe(200);
    expect(held).toHaveLength(64);
    slow.on("request", (_, response) => response.end("<p>late</p>"));
    for (const response of held) response.end("<p>late</p>");
    expect((await Promise.all(calls)).flat()).toEqual(Array(80).fill(200));
    slow.close();
  });

  test("those that are broken off before their turn leave their places", async () => {
    const mine = { Authorization: "key-of-the-instance" };
    const forms = Array.from({ length: 12 }, () => [mine, ...OTHERS].map(beginForm)).flat();
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const form of forms.reverse()) form.destroy();
    const startedAt = Date.now();
    for (let calls = 0; calls < 2; calls += 1) await callOwn();
    expect(Date.now() - startedAt).toBeLessThan(8_000);
  });
});
