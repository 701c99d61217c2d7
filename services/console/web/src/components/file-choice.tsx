interface FileChoiceProps {
  readonly label: string;
  /** As the attribute of the same name. */
  readonly accept: string;
  readonly onFile: (file: File) => void;
}

/** Lets the reader choose a file, in words of the page rather than of the browser. */
export function FileChoice({ label, accept, onFile }: FileChoiceProps) {
  return (
    <label class="button file-choice">
      {label}
      <input
        type="file"
        class="visually-hidden"
        accept={accept}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.files?.[0];
          if (chosen) onFile(chosen);
          currentTarget.value = "";
        }}
      />
    </label>
  );
}
