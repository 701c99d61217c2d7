import { expect } from "vitest";
import type { Sentence } from "../../services/core/sentences.ts";

/** Sentences in the words of the table. */
export const inWords = (sentences: readonly Sentence[]): string[] => sentences.map(({ message }) => message);

/** Matches a sentence of these words. */
export const saying = (message: unknown): Sentence => expect.objectContaining({ message }) as Sentence;
