// A script that does not arrive leaves an empty page: the page is loaded again until it does.
addEventListener(
  "error",
  ({ target }) => {
    if (target instanceof HTMLScriptElement) setTimeout(() => location.reload(), 3_000);
  },
  true,
);
