/**
 * How the services are built: each program becomes one file, and what it shares with others stands in chunks beside
 * it. Node reads a few dozen files then instead of 1,500, which halves the time in which a process starts. They are
 * CommonJS, which Node can keep compiled (bin/run.cjs).
 */
import { readdirSync } from "node:fs";

/** What runs in a process or a thread of its own, beside each service's main. */
const PROGRAMS = ["cli/service-process", "cli/service-thread"];
/**
 * What answers DNS queries, and what makes zones of millions of rows: each by itself, sharing nothing. Calls from one chunk to
 * another would cost their hot paths time.
 */
const DNS_THREADS = ["dns-server/listeners/udp-worker", "dns-server/feed/zone-image-thread"];
/** What a program in another place may start by itself. */
const MODULES = ["platform/postgres/embedded-postgres"];
/** Native code. */
const EXTERNAL = /^(koffi|pg-native)$/;
/**
 * What knex knows of databases other than PostgreSQL, and the stores of rate-limiter-flexible other than memory: every
 * process would hold them. Who imports such a part gets an empty module in the build.
 */
const UNUSED_PARTS =
  /\/node_modules\/(knex\/lib\/dialects\/(?!index|postgres\/)|rate-limiter-flexible\/lib\/RateLimiter(?!\w*Abstract|Memory|Res)\w+\.js$)/;
const withoutUnusedParts = {
  name: "without-unused-parts",
  load: (id) => (UNUSED_PARTS.test(id.replaceAll("\\", "/")) ? "module.exports = {};" : null),
};

const mains = readdirSync("services", { recursive: true })
  .filter((file) => /^[^/]+\/main\.ts$/.test(file))
  .map((file) => file.replace(/\.ts$/, ""));

const filesOf = (names) => Object.fromEntries(names.map((name) => [name, `services/${name}.ts`]));

const build = (input, output) => ({
  input: filesOf(input),
  platform: "node",
  logLevel: "warn",
  external: EXTERNAL,
  plugins: [withoutUnusedParts],
  // A package's own use of eval is its author's to answer for.
  checks: { eval: false },
  output: {
    dir: "dist/services",
    format: "cjs",
    dynamicImportInCjs: false,
    entryFileNames: "[name].cjs",
    sourcemap: true,
    // A process holds the text of what it runs: an octet a character where all are ASCII, two where one is not. Names
    // and line breaks stay: traces in logs say where.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: false, asciiOnly: true } },
    comments: false,
    ...output,
  },
});

export default [
  build([...mains, ...PROGRAMS, ...MODULES], { cleanDir: true, chunkFileNames: "chunks/[name].cjs" }),
  ...DNS_THREADS.map((thread) => build([thread], { chunkFileNames: `${thread}-chunks/[name].cjs` })),
];
