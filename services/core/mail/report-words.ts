import type { DsnAction } from "./bounce/dsn.ts";
import type { Notification } from "./dsn-parameters.ts";

/** What reports are written in. */
export const REPORT_LANGUAGES = ["en", "es"] as const;

export type ReportLanguage = (typeof REPORT_LANGUAGES)[number];

/** The words of reports for people, in one language. */
interface ReportWords {
  readonly subject: Readonly<Record<Notification, string>>;
  /** @param host that reports */
  readonly introduction: (host: string) => string;
  readonly explanation: Readonly<Record<Notification, string>>;
  /** What became of one recipient. */
  readonly action: Readonly<Record<DsnAction, string>>;
  /** Stands before the far side's reply. */
  readonly answer: string;
  /** Stands before words that are no reply. */
  readonly details: string;
  readonly retries: (until: Date) => string;
  readonly returned: Readonly<Record<"headers" | "full", string>>;
}

export const REPORT_WORDS: Readonly<Record<ReportLanguage, ReportWords>> = {
  en: {
    subject: {
      failure: "Your message could not be delivered",
      delay: "Your message is delayed; it is still being tried",
      success: "Your message was passed on",
    },
    introduction: (host) => `This is the mail system at ${host}.`,
    explanation: {
      failure: "Your message could not be delivered to the recipients below, and is not tried again.",
      delay: "Your message has not been delivered to the recipients below yet. You need not send it again.",
      success: "You asked to be told what became of your message.",
    },
    action: {
      failed: "not delivered",
      delayed: "delayed",
      delivered: "delivered",
      relayed: "passed on to a mail system that sends no reports of deliveries",
      expanded: "delivered to a list, which sent it on to several recipients",
    },
    answer: "The answer was",
    details: "Details",
    retries: (until) => `It is tried until ${momentIn("en", until)}.`,
    returned: { headers: "The header of your message is attached.", full: "Your message is attached." },
  },
  es: {
    subject: {
      failure: "No se ha podido entregar su mensaje",
      delay: "Su mensaje se retrasa; se sigue intentando",
      success: "Su mensaje ha sido transmitido",
    },
    introduction: (host) => `Este es el sistema de correo de ${host}.`,
    explanation: {
      failure: "No se ha podido entregar su mensaje a los destinatarios siguientes, y no se intenta más.",
      delay:
        "Su mensaje todavía no se ha entregado a los destinatarios siguientes. No hace falta que lo envíe de nuevo.",
      success: "Usted pidió saber qué ha sido de su mensaje.",
    },
    action: {
      failed: "no entregado",
      delayed: "retrasado",
      delivered: "entregado",
      relayed: "transmitido a un sistema de correo que no informa de las entregas",
      expanded: "entregado a una lista, que lo ha enviado a varios destinatarios",
    },
    answer: "La respuesta fue",
    details: "Detalles",
    retries: (until) => `Se intenta hasta el ${momentIn("es", until)}.`,
    returned: { headers: "Se adjunta la cabecera de su mensaje.", full: "Se adjunta su mensaje." },
  },
};

/** `Wednesday, December 2, 2026 at 10:00 UTC` */
function momentIn(language: ReportLanguage, moment: Date): string {
  const format = { dateStyle: "full", timeStyle: "short", hourCycle: "h23", timeZone: "UTC" } as const;
  return `${new Intl.DateTimeFormat(language, format).format(moment)} UTC`;
}
