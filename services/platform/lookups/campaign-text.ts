import { toHeaderText } from "../../core/mail/headers.ts";
import { DYNAMIC_SUBJECT, judgePlaces } from "../../core/mail/personalise.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { fetchText } from "./fetch-html.ts";
import type { FetchSurroundings } from "./pinned-agent.ts";

/** Subject and HTML of a campaign: given, or named by URL. */
export interface CampaignTextSource {
  /** `DYNAMIC_SUBJECT`: fetched from `subjectUri`. */
  readonly subject: string;
  readonly subjectUri: string;
  readonly body: { readonly html: string } | { readonly url: string };
}

/**
 * The text of a campaign as it is now; what is named by URL is fetched, once.
 * @returns refused with a sentence in the API's words
 */
export async function readCampaignText(
  { subject, subjectUri, body }: CampaignTextSource,
  surroundings: FetchSurroundings,
): Promise<Result<{ readonly subject: string; readonly html: string }, Sentence>> {
  const html = "html" in body ? ok(body.html) : await fetchText(body.url, "html", surroundings);
  if (!html.ok) return refuse(sentence("url-unreachable", { field: "url", reason: html.error }));
  const fault = judgePlaces(html.value);
  if (fault) return refuse(fault);
  if (subject !== DYNAMIC_SUBJECT) return ok({ subject, html: html.value });
  if (subjectUri === "") return refuse(sentence("subject-uri-missing"));
  const fetched = await fetchSubject(subjectUri, surroundings);
  return fetched.ok ? ok({ subject: fetched.value, html: html.value }) : fetched;
}

/** Twice what a subject that is given may have: who writes one somewhere else has hardly counted it. In UTF-16 units. */
const MOST_SUBJECT_CHARACTERS = 1_000;

/** The dynamic subject, in one line. @returns refused with a sentence in the API's words */
export async function fetchSubject(url: string, surroundings: FetchSurroundings): Promise<Result<string, Sentence>> {
  const fetched = await fetchText(url, "text", surroundings);
  const subject = fetched.ok ? ok(toHeaderText(fetched.value)) : fetched;
  if (subject.ok && subject.value.length <= MOST_SUBJECT_CHARACTERS) return subject;
  const reason = subject.ok ? sentence("at-most-characters", { most: MOST_SUBJECT_CHARACTERS }) : subject.error;
  return refuse(sentence("url-unreachable", { field: "asunto_uri", reason }));
}
