/** A contact, as lists show it. */
export interface ContactSummary {
  readonly numid: number;
  readonly email: string;
  readonly nombre: string;
  readonly apellido: string;
  readonly edad: number | null;
  readonly sexo: string;
  readonly profesion: string;
  readonly localidad: string;
  readonly operacion: string;
  readonly actualizado: string;
  readonly codigo_pais: string;
  readonly codigo_region: string;
  readonly ciudad: string;
  readonly dispositivo: string;
  readonly invalido: boolean;
  readonly grupos: readonly string[];
  readonly campanias: readonly CampaignName[];
  readonly campanias_desusc: readonly CampaignName[];
}

export interface Contact extends ContactSummary {
  readonly campos: readonly { readonly nombre: string; readonly valor: string }[];
  readonly eventos: readonly ContactEvent[];
}

export interface CampaignName {
  readonly numid: number;
  readonly nombre: string;
}

export interface ContactEvent {
  readonly evento: string;
  readonly timestamp: string;
  readonly campania: string;
  /** Done by a machine, not by a person. */
  readonly maquina?: true;
}

export interface Group {
  readonly nombre: string;
  readonly contactos: number;
}

/** First and last name, as far as they are known. */
export function fullName({ nombre, apellido }: Pick<ContactSummary, "nombre" | "apellido">): string {
  return [nombre, apellido].filter(Boolean).join(" ");
}
