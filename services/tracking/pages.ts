import { createHash } from "node:crypto";
import type { Context } from "koa";
import { escapeHtml } from "../core/mail/personalise.ts";
import type { SubscriptionChoice } from "../operations/mail/tracking-subscriptions.ts";
import type { Subscription } from "../store/mail/tracking/subscriptions.ts";

type Language = "es" | "en";

/** What went wrong, in words for strangers; nothing of the request is repeated. */
type ErrorPage = "bad-link" | "gone" | "no-page" | "wrong-method" | "too-many" | "too-large" | "unavailable";

const LANGUAGES: readonly Language[] = ["es", "en"];

const STYLE =
  "html{color-scheme:light dark;background:Canvas;color:CanvasText}" +
  "body{font:17px/1.5 system-ui,sans-serif;max-width:34rem;margin:0 auto;padding:10vh 1.25rem}" +
  "h1{font-size:1.5rem;line-height:1.25}form{margin:.75rem 0}[role=status]{border-left:4px solid;padding-left:1rem}" +
  "button{font:inherit;width:100%;padding:.75rem 1rem;text-align:left;border:1px solid;border-radius:.5rem;" +
  "background:transparent;color:inherit;cursor:pointer}button:focus-visible{outline:3px solid;outline-offset:2px}" +
  "button[value=campaign]{background:CanvasText;color:Canvas}";

/** Nothing but our own style sheet, and forms that lead back here. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The visitor's choice of what the pages are written in; Spanish unless something else is asked for. */
function languageOf(ctx: Context): Language {
  const accepted = ctx.acceptsLanguages([...LANGUAGES]);
  return accepted === "en" ? "en" : "es";
}

const TEXTS = {
  es: {
    title: "Preferencias de correo",
    intro: (instance: string) => `Estos mensajes se los envía <strong>${instance}</strong>.`,
    askCampaign: (campaign: string) => `¿Desea dejar de recibir <strong>${campaign}</strong>?`,
    askPlain: "¿Desea dejar de recibir estos mensajes?",
    campaign: "Cancelar suscripción",
    instance: "No recibir ningún mensaje más de este remitente",
    untracked: "No registrar mis aperturas ni mis clics",
    tracked: "Volver a permitir el registro de aperturas y clics",
    doneCampaign: "Su suscripción ha sido cancelada. No recibirá más mensajes de esta campaña.",
    doneInstance: "Su suscripción ha sido cancelada. No recibirá más mensajes de este remitente.",
    isUntracked: "No se registran sus aperturas ni sus clics.",
    saved: "Sus preferencias han sido guardadas.",
    errors: {
      "bad-link": "Este enlace no es válido.",
      gone: "Este enlace ya no existe.",
      "no-page": "Esta página no existe.",
      "wrong-method": "Método no permitido.",
      "too-many": "Demasiados intentos. Inténtelo más tarde.",
      "too-large": "Petición demasiado grande.",
      unavailable: "Servicio no disponible por el momento. Inténtelo dentro de unos minutos.",
    },
  },
  en: {
    title: "Email preferences",
    intro: (instance: string) => `These messages are sent to you by <strong>${instance}</strong>.`,
    askCampaign: (campaign: string) => `Do you want to stop receiving <strong>${campaign}</strong>?`,
    askPlain: "Do you want to stop receiving these messages?",
    campaign: "Unsubscribe",
    instance: "Receive nothing more from this sender",
    untracked: "Do not record when I open messages or click links",
    tracked: "Allow opens and clicks to be recorded again",
    doneCampaign: "You have been unsubscribed. You will receive no more messages of this campaign.",
    doneInstance: "You have been unsubscribed. You will receive no more messages from this sender.",
    isUntracked: "Your opens and clicks are not recorded.",
    saved: "Your preferences have been saved.",
    errors: {
      "bad-link": "This link is not valid.",
      gone: "This link no longer exists.",
      "no-page": "There is no such page.",
      "wrong-method": "Method not allowed.",
      "too-many": "Too many attempts. Try again later.",
      "too-large": "Request too large.",
      unavailable: "Temporarily unavailable. Try again in a few minutes.",
    },
  },
} as const satisfies Record<Language, unknown>;

/** Answers with a page about an error. */
export function sendErrorPage(ctx: Context, status: number, error: ErrorPage): void {
  const language = languageOf(ctx);
  const texts = TEXTS[language];
  sendPage(ctx, status, { language, body: `<p>${texts.errors[error]}</p>` });
}

/**
 * Answers with the preferences of a recipient.
 * @param subscription undefined while the database is away: the page then names nobody, and works all the same
 * @param done what the visitor has just chosen
 */
export function sendPreferencePage(
  ctx: Context,
  subscription: Subscription | undefined,
  done?: SubscriptionChoice,
): void {
  const language = languageOf(ctx);
  const texts = TEXTS[language];
  const { instanceName = "", campaignName = "", untracked = false } = subscription ?? {};
  const offFromInstance = subscription?.unsubscribedFromInstance || done === "instance";
  const offFromCampaign = subscription?.unsubscribedFromCampaign || done === "campaign";
  const question = campaignName === "" ? texts.askPlain : texts.askCampaign(escapeHtml(campaignName));
  const body = [
    instanceName === "" ? "" : `<p>${texts.intro(escapeHtml(instanceName))}</p>`,
    done === "tracked" || done === "untracked" ? `<p role="status">${texts.saved}</p>` : "",
    offFromInstance
      ? `<p role="status">${texts.doneInstance}</p>`
      : offFromCampaign
        ? `<p role="status">${texts.doneCampaign}</p>`
        : `<p>${question}</p>${formFor("campaign", texts.campaign)}`,
    offFromInstance ? "" : formFor("instance", texts.instance),
    untracked
      ? `<p>${texts.isUntracked}</p>${formFor("tracked", texts.tracked)}`
      : formFor("untracked", texts.untracked),
  ];
  sendPage(ctx, 200, { language, body: body.join("") });
}

function formFor(choice: SubscriptionChoice, label: string): string {
  return `<form method="post"><button name="choice" value="${choice}">${label}</button></form>`;
}

function sendPage(ctx: Context, status: number, page: { readonly language: Language; readonly body: string }): void {
  const { title } = TEXTS[page.language];
  ctx.status = status;
  ctx.type = "html";
  ctx.set("Content-Language", page.language);
  ctx.set("Vary", "Accept-Language");
  ctx.body =
    `<!doctype html><html lang="${page.language}"><head><meta charset="utf-8"><title>${title}</title>` +
    `<meta name="viewport" content="width=device-width,initial-scale=1"><style>${STYLE}</style></head>` +
    `<body><main><h1>${title}</h1>${page.body}</main></body></html>\n`;
}
