import { render } from "preact";
import { App } from "./app.tsx";
import { findSession } from "./session.ts";
import { loadTexts } from "./texts.ts";
import "./style/index.css";

await Promise.all([loadTexts(), findSession()]);
const root = document.getElementById("app");
if (!root) throw new Error("index.html has no #app");
render(<App />, root);
