// The job page: its parts, log and readings follow the job; a break of the connection is healed without loss.
import { GpuRows } from "./gpus.js";
import { Live, single } from "./live.js";
import { LogFeed } from "./logfeed.js";
import { LogView } from "./logview.js";
import { _, bytes, fill, ngettext, whole } from "./words.js";

const POLL_MS = 5000; // hints may be lost; while the job lives its page looks by itself, slowly

const page = document.getElementById("job");
const find = (name) => page.querySelector(`[data-${name}]`);
const state = () => document.getElementById("job-live").dataset;
const api = `/api/v1/jobs/${page.dataset.job}`;
const tenant = page.dataset.tenant;
const box = find("log");

const view = new LogView(box, { onFollow: showFollow, onTrim: () => showLog() });
const feed = new LogFeed({ url: `${api}/log`, tenant, view, onChange: () => showLog() });
const gpus = new GpuRows(document.getElementById("gpus"), { url: `${api}/gpu-readings`, tenant });
const live = new Live();
const pullGpus = single(() => gpus.pull(), 1000);
let shownAttempt = -1;

const refetch = single(async () => {
  const answer = await fetch(page.dataset.liveUrl, { headers: { "HX-Request": "true" }, credentials: "same-origin" }).catch(() => null);
  if (!answer) return;
  if (answer.status === 401) { location.assign(answer.headers.get("HX-Redirect") || "/sign-in"); return; }
  if (!answer.ok) return;
  const html = await answer.text();
  const focused = page.contains(document.activeElement) ? document.activeElement.id : "";
  window.htmx.swap(document.getElementById("job-live"), html, { swapStyle: "outerHTML" });
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  live.updated();
  attempts();
}, 150);

function attempts() {
  const newest = Number(state().attempt);
  const select = find("log-attempt");
  const following = select.options.length === 0 || select.selectedIndex === 0;
  if (select.options.length !== newest) {
    const chosen = Number(select.value) || newest;
    select.replaceChildren(...Array.from({ length: newest }, (_none, i) => new Option(String(newest - i), String(newest - i))));
    select.value = String(following ? newest : chosen);
    find("log-attempt-box").hidden = newest < 2;
  }
  openLog(following ? newest : Number(select.value));
  if (state().gpus !== gpus.uuids.join(",")) { gpus.open(state().gpus ? state().gpus.split(",") : []); pullGpus(); }
}

function openLog(no) {
  if (no !== shownAttempt) { shownAttempt = no; feed.open(no); } else feed.pull();
}

function showFollow(on) {
  find("log-follow").setAttribute("aria-pressed", on ? "true" : "false");
}

function showLog() {
  const lead = document.getElementById("job-lead");
  const some = feed.length > 0;
  const ended = state().active === "0" || shownAttempt < Number(state().attempt);
  box.hidden = !some && !lead.hidden;
  box.dataset.empty = some ? "0" : "1";
  find("log-bar").hidden = !some && Number(state().attempt) < 2;
  find("log-download").hidden = !some;
  find("log-download").href = `${api}/log/download?attempt=${shownAttempt}`;
  find("log-count").textContent = some ? `${fill(ngettext("%(n)s line", "%(n)s lines", view.lines), { n: whole(view.lines) })}, ${bytes(feed.length)}` : "";
  view.head.hidden = view.start === 0;
  if (view.start > 0) showHead();
  view.foot.hidden = some ? !feed.truncated : false;
  view.foot.textContent = some ? _("The log was cut at its limit.") : ended ? _("The log is empty.") : _("No output yet.");
}

function showHead() {
  const text = fill(_("%(size)s before this"), { size: bytes(view.start) });
  if (view.head.dataset.text === text && view.head.dataset.may === String(feed.mayLoadEarlier)) return;
  view.head.dataset.text = text;
  view.head.dataset.may = String(feed.mayLoadEarlier);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "toggle";
  button.textContent = _("load earlier");
  button.addEventListener("click", () => { view.setFollow(false); feed.earlier(); });
  view.head.replaceChildren(feed.mayLoadEarlier ? button : _("Download the log to read the rest:"), document.createTextNode(text));
}

find("log-attempt").addEventListener("change", (event) => openLog(Number(event.target.value)));
find("log-follow").addEventListener("click", () => view.setFollow(!view.follow));
find("log-wrap").addEventListener("click", (event) => {
  const on = event.currentTarget.getAttribute("aria-pressed") !== "true";
  event.currentTarget.setAttribute("aria-pressed", on ? "true" : "false");
  box.dataset.wrap = on ? "1" : "0";
  if (view.follow) view.toBottom();
});

let hit = -1;
find("log-search").addEventListener("input", (event) => {
  const count = view.search(event.target.value);
  hit = count - 1;
  if (count) view.show(hit);
  showHits(event.target.value ? count : -1);
});
find("log-search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !view.hits.length) return;
  event.preventDefault();
  hit = (hit + (event.shiftKey ? 1 : view.hits.length - 1)) % view.hits.length;
  view.show(hit);
  showHits(view.hits.length);
});
function showHits(count) {
  find("log-hits").textContent = count < 0 ? "" : count ? `${whole(hit + 1)} / ${whole(count)}` : _("not found");
}

live.subscribe(`job/${page.dataset.job}`, {
  onSeq: () => { refetch(); feed.pull(); pullGpus(); },
  onRefetch: () => { refetch(); feed.pull(); pullGpus(); },
  onHint: (hint) => {
    if (hint.kind === "event") refetch();
    else if (hint.kind === "log" && hint.stream === 0) feed.pull();
    else if (hint.kind === "sample") pullGpus();
  },
});

box.dataset.wrap = "1";
attempts();
live.start();
setInterval(() => {
  if (document.hidden) return;
  if (!feed.complete) feed.pull();
  if (state().active === "1") refetch();
  if (state().running === "1") pullGpus();
}, POLL_MS);
