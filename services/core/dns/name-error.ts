import type { Sentence } from "../sentences.ts";

/** Why a name was refused, in words for whoever wrote it. */
export type NameError = Sentence;
