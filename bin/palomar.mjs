#!/usr/bin/env node
// The command line, from a clone and from an installation: what a clone still lacks is made first.
import { requireNodeVersion, setUp } from "./set-up.mjs";

requireNodeVersion();
setUp();
await import("../dist/services/cli/main.js");
