// Times in the reader's own zone and words; UTC stays in the title.
const lang = document.documentElement.lang || "en";
const relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });
const clock = new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const full = new Intl.DateTimeFormat(lang, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });

export function ago(at) {
  const seconds = (at - Date.now()) / 1000;
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(Math.min(0, Math.round(seconds)), "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86400), "day");
}

export function showTimes(root = document) {
  for (const el of root.querySelectorAll("time[data-time]")) {
    const at = new Date(el.dateTime);
    const style = el.dataset.time;
    const text = style === "clock" ? clock.format(at) : style === "full" ? full.format(at) : ago(at);
    if (el.textContent !== text) el.textContent = text;
    if (!el.dataset.local) { el.dataset.local = "1"; el.title = `${exact.format(at)} · ${el.title}`; }
  }
}

export function startTimes() {
  showTimes();
  setInterval(showTimes, 5000);
  document.addEventListener("htmx:afterSettle", () => showTimes());
}
