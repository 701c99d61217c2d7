import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const outDir = fileURLToPath(new URL("../../../dist/console-web", import.meta.url));

/** The console's pages: sources in `src/`, built into `dist/console-web`, where the console service serves them. */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  build: {
    outDir,
    emptyOutDir: true,
    // `light-dark()` and `<dialog>` as the browsers of 2024 brought them.
    target: ["chrome125", "firefox128", "safari17.5"],
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Every asset is a file of its own: the Content-Security-Policy knows no `data:` scripts or styles.
    assetsInlineLimit: 0,
  },
  plugins: [compressed()],
});

/** Puts a `.br` and a `.gz` beside every file that travels as text, so that no request waits for a compressor. */
function compressed(): Plugin {
  return {
    name: "palomar-compressed",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|html|svg|json)$/.test(entry.name)) continue;
        const file = join(entry.parentPath, entry.name);
        const octets = readFileSync(file);
        writeFileSync(`${file}.br`, brotliCompressSync(octets));
        writeFileSync(`${file}.gz`, gzipSync(octets, { level: 9 }));
      }
    },
  };
}
