// Runs before the first paint: a page that follows the system gets its theme here, because CSP allows no inline script.
(function () {
  const root = document.documentElement;
  if (root.dataset.theme !== "auto") return;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => root.setAttribute("data-bs-theme", dark.matches ? "dark" : "light");
  apply();
  dark.addEventListener("change", apply);
})();
