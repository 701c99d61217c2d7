#!/usr/bin/env node
// The command line, from a clone and from an installation: what a clone still lacks is made first.
import { fileURLToPath } from "node:url";
import run from "./run.cjs";
import { requireNodeVersion, setUp } from "./set-up.mjs";

requireNodeVersion();
setUp();
run.load(fileURLToPath(new URL("../dist/services/cli/main.cjs", import.meta.url)));
