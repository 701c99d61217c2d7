// A page that did not come whole is loaded again until it does, after 3 s, 6 s, 12 s … up to a minute. What the page runs says
// `load-again` where it cannot go on, and `loaded` where it can.
const TRIES = "load-again";
const loadAgain = () => {
  const tries = Number(sessionStorage.getItem(TRIES));
  sessionStorage.setItem(TRIES, String(tries + 1));
  setTimeout(() => location.reload(), Math.min(3_000 * 2 ** tries, 60_000) * (1 + Math.random() / 4));
};
addEventListener("load-again", loadAgain);
addEventListener("loaded", () => sessionStorage.removeItem(TRIES));
addEventListener(
  "error",
  ({ target }) => {
    if (target instanceof HTMLScriptElement) loadAgain();
  },
  true,
);
