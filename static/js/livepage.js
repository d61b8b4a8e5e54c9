// Lists and the node page: a hint makes the page fetch its changing part again.
import { Live, single } from "./live.js";

const part = document.getElementById("list");
const live = new Live();

const refetch = single(async () => {
  const url = part.dataset.liveUrl || location.pathname + location.search;
  const answer = await fetch(url, { headers: { "HX-Request": "true" }, credentials: "same-origin" }).catch(() => null);
  if (!answer) return; // the connection is gone: the next connect asks again
  if (answer.status === 401) { location.assign(answer.headers.get("HX-Redirect") || "/sign-in"); return; }
  if (!answer.ok) return;
  const html = await answer.text();
  if (part.querySelector("dialog[open], form[data-sent]")) return;
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  window.htmx.swap(part, html, { swapStyle: "innerHTML" });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  live.updated();
}, 300);

live.subscribe(part.dataset.liveTopic, {
  onSeq: refetch, // what happened between the page's making and this moment
  onHint: refetch,
  onRefetch: refetch,
});
live.start();
