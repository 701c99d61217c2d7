/** Why a name was refused, in words for whoever wrote it. */
export interface NameError {
  readonly message: string;
}
