import type { Sentence } from "../../../../../core/sentences.ts";
import type { Tone } from "../../components/badge.tsx";

/** A campaign, and what it sends where it is of type `normal`. */
export interface Campaign {
  readonly numid: number;
  readonly tipo: "api" | "normal" | "bulk";
  readonly nombre: string;
  readonly remitente: string;
  readonly remitente_nombre: string;
  readonly asunto: string;
  readonly replyto: string;
  readonly desusc: string;
  /** Where the HTML is fetched from; empty when the campaign holds it. */
  readonly url: string;
  /** null for campaigns that calls of the mail API send. */
  readonly estado: CampaignState | null;
  readonly grupos: readonly string[];
  readonly filtros: readonly number[];
  readonly inicio: string | null;
  readonly pausa: { readonly timestamp: string; readonly motivo: Sentence } | null;
  readonly eeid: string | null;
  readonly destinatarios: number | null;
  readonly fin: string | null;
  /** When it last changed; null while nothing is written. */
  readonly modificado: string | null;
}

export interface CampaignWithHtml extends Campaign {
  readonly html: string | null;
}

export type CampaignState =
  | "borrador"
  | "programado"
  | "preparando"
  | "enviando"
  | "pausado"
  | "enviado"
  | "cancelando"
  | "cancelado";

export const STATE_TONES: { readonly [S in CampaignState]: Tone } = {
  borrador: "quiet",
  programado: "accent",
  preparando: "accent",
  enviando: "accent",
  pausado: "warn",
  enviado: "good",
  cancelando: "warn",
  cancelado: "quiet",
};

/** `Name <address>`, as far as it has them. */
export function senderOf({ remitente, remitente_nombre }: Campaign): string {
  return [remitente_nombre, remitente && `<${remitente}>`].filter(Boolean).join(" ");
}

/** Whether its message may still be written. */
export const isDraft = ({ estado }: Campaign): boolean => estado === "borrador";

/** Whether it is under way, so that what is shown of it changes. */
export const isUnderWay = ({ estado }: Campaign): boolean =>
  estado === "programado" || estado === "preparando" || estado === "enviando" || estado === "cancelando";
