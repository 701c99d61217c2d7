import type { Tone } from "../../components/badge.tsx";
import { type Fetched, useFetched } from "../../fetched.ts";
import { instancePath } from "../addresses.ts";

/** An effective send, as lists show it. */
export interface Batch {
  readonly eeid: string;
  readonly campana_id: number;
  readonly creador_id: string;
  readonly timestamp: string;
  readonly modificado: string;
  readonly estado: "encolado" | "enviando" | "enviado" | "cancelado";
  readonly pausado: boolean;
  readonly destinatarios: number;
  readonly cant_particiones: number;
  readonly particiones_tomadas: number;
  readonly particiones_finalizadas: number;
  readonly salidas_con_error: number;
}

export interface BatchWithProgress extends Batch {
  readonly entregados: number;
  readonly en_cola: number;
  readonly cancelados: number;
  readonly rebotes_hard: number;
}

export const BATCH_TONES: { readonly [S in Batch["estado"]]: Tone } = {
  encolado: "quiet",
  enviando: "accent",
  enviado: "good",
  cancelado: "warn",
};

export const isOver = ({ estado }: Batch): boolean => estado === "enviado" || estado === "cancelado";

const REFRESH_MS = 2_000;

/** Reads a batch for as long as it moves, its last figures included. */
export function useBatch(instance: string, eeid: string): Fetched<BatchWithProgress> {
  return useFetched(instancePath(instance, "batches", eeid), (newest) =>
    newest && isOver(newest) ? undefined : REFRESH_MS,
  );
}
