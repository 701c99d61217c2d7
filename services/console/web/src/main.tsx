import { render } from "preact";
import { App } from "./app.tsx";
import "./chosen-language.ts";
import { findSession } from "./session.ts";
import { loadTexts } from "./texts.ts";
import "./style/index.css";

const root = document.getElementById("app");
if (!root) throw new Error("index.html has no #app");
await Promise.all([loadTexts(), findSession()]).then(
  () => {
    dispatchEvent(new Event("loaded"));
    render(<App />, root);
  },
  // The server went away, or has a newer release whose files have other names; without texts there is nothing to say.
  () => dispatchEvent(new Event("load-again")),
);
