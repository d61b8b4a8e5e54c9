// What every page does: times, tabs, dialogs, copy, keys, forms that are sent once.
import { startTimes } from "./times.js";
import { _ } from "./words.js";

const $ = (selector, root = document) => root.querySelector(selector);

function tabs(root) {
  for (const box of root.querySelectorAll("[data-tabs]:not([data-ready])")) {
    box.dataset.ready = "1";
    const buttons = [...box.querySelectorAll('[role="tab"]')];
    const show = (chosen, focus) => {
      for (const button of buttons) {
        const on = button === chosen;
        button.setAttribute("aria-selected", on ? "true" : "false");
        button.tabIndex = on ? 0 : -1;
        document.getElementById(button.getAttribute("aria-controls")).hidden = !on;
      }
      if (focus) chosen.focus();
    };
    box.addEventListener("click", (event) => {
      const button = event.target.closest('[role="tab"]');
      if (!button || !buttons.includes(button)) return;
      show(button);
      if ("tabsHash" in box.dataset) history.replaceState(null, "", `#${button.getAttribute("aria-controls")}`);
    });
    box.addEventListener("keydown", (event) => {
      const at = buttons.indexOf(event.target);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (at < 0 || !step) return;
      event.preventDefault();
      show(buttons[(at + step + buttons.length) % buttons.length], true);
    });
    const byHash = () => buttons.find((b) => `#${b.getAttribute("aria-controls")}` === location.hash);
    if ("tabsHash" in box.dataset) addEventListener("hashchange", () => show(byHash() || buttons[0]));
    const wanted = "tabsHash" in box.dataset && byHash();
    show(wanted || buttons.find((b) => b.getAttribute("aria-selected") === "true") || buttons[0]);
  }
}

async function copy(button) {
  const text = $("code", button.closest(".code")).textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const range = document.createRange();  // no clipboard on plain http: select it, so that Ctrl-C takes it
    range.selectNodeContents($("code", button.closest(".code")));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return;
  }
  const use = $("use", button);
  const before = use.getAttribute("href");
  use.setAttribute("href", before.replace(/#.*/, "#check"));
  button.title = _("Copied");
  setTimeout(() => { use.setAttribute("href", before); button.title = _("Copy"); }, 1500);
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) { event.preventDefault(); document.getElementById(opener.dataset.dialog).showModal(); return; }
  if (event.target.closest("[data-close]")) { event.target.closest("dialog").close(); return; }
  if (event.target.closest("[data-dismiss]")) { event.target.closest(".message").remove(); return; }
  const copier = event.target.closest("[data-copy]");
  if (copier) { copy(copier); return; }
  const menu = event.target.closest("[data-menu]");
  if (menu) {
    const side = document.getElementById("side");
    const open = side.toggleAttribute("data-open");
    menu.setAttribute("aria-expanded", open ? "true" : "false");
    return;
  }
  for (const drop of document.querySelectorAll("details.dropdown-menu-host[open]")) if (!drop.contains(event.target)) drop.open = false;
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if ("typeName" in form.dataset && $("[data-type-input]", form).value.trim() !== form.dataset.typeName) {
    event.preventDefault();
    $("[data-type-input]", form).focus();
    return;
  }
  if (!("once" in form.dataset)) return;
  if (form.dataset.sent) { event.preventDefault(); return; }
  form.dataset.sent = "1";
  for (const button of form.querySelectorAll('button[type="submit"]')) button.setAttribute("aria-disabled", "true");
});

// a page from the back-forward cache may be sent again; its key makes a repeat harmless
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-disabled]")) button.removeAttribute("aria-disabled");
  }
});

document.addEventListener("change", (event) => {
  if (event.target.closest("[data-submit-on-change]")) event.target.form.requestSubmit();
});

let went = 0;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const drop of document.querySelectorAll("details.dropdown-menu-host[open]")) drop.open = false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  if (event.key === "/") {
    const search = [...document.querySelectorAll("[data-search]")].find((e) => e.offsetParent);
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "g") {
    went = Date.now();
  } else if (Date.now() - went < 1500 && "jn".includes(event.key)) {
    const link = $(event.key === "j" ? '.side-link[href="/jobs"]' : '.side-link[href="/nodes"]');
    if (link) location.assign(link.href);
  } else if (event.key === "n" && $('.side-link[href="/jobs"]')) {
    location.assign("/jobs/new");
  }
});

tabs(document);
startTimes();
$("[data-focus]")?.focus();
document.addEventListener("htmx:afterSettle", (event) => tabs(event.target));
