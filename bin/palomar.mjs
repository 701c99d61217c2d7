#!/usr/bin/env node
// The command line, from a clone and from an installation: what a clone still lacks is made first.
import { fileURLToPath } from "node:url";
import run from "./run.cjs";
import { requireNodeVersion, setUp } from "./set-up.mjs";

requireNodeVersion();
setUp();
run.load(fileURLToPath(new URL("../dist/services/cli/main.cjs", import.meta.url)));
// `npm run palomar` moves to the clone's folder, which paths in variables count from, as with `npm start`; they have been
// read now. The files that a command names count from where its user stands. `start` names none, and has its services read
// the variables again.
const { npm_lifecycle_event: script, INIT_CWD: caller } = process.env;
const command = process.argv.slice(2).find((word) => !word.startsWith("-"));
if (script === "palomar" && caller !== undefined && command !== "start") process.chdir(caller);
