// The form of a new job: uploads files at once and shows the job as YAML, CLI and curl while one types.
import { cli, curl, mib, seconds, specOf, yaml } from "./jobspec.js";
import { _, bytes, fill } from "./words.js";

const form = document.getElementById("job-form");
const { tenant, url } = form.dataset;
const list = form.querySelector("[data-file-list]");
const csrf = form.elements.csrfmiddlewaretoken.value;
let files = JSON.parse(form.elements.inputs.value || "[]");

function preview() {
  const spec = specOf(form);
  document.getElementById("preview-yaml").textContent = yaml(spec);
  document.getElementById("preview-cli").textContent = cli(spec, tenant);
  document.getElementById("preview-api").textContent = curl(spec, url, tenant);
}

function keep() {
  form.elements.inputs.value = JSON.stringify(files);
  preview();
}

function row(file) {
  const item = document.createElement("li");
  const path = document.createElement("input");
  path.className = "form-control";
  path.value = file.path;
  path.setAttribute("aria-label", _("Path below /berth/in"));
  path.addEventListener("input", () => { file.path = path.value; keep(); });
  const size = document.createElement("span");
  size.className = "num";
  size.textContent = bytes(file.size);
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "icon-button";
  remove.textContent = "×";
  remove.setAttribute("aria-label", fill(_("Remove %(path)s"), { path: file.path }));
  remove.addEventListener("click", () => { files = files.filter((f) => f !== file); item.remove(); keep(); });
  item.append(path, size, remove);
  return item;
}

async function upload(file) {
  const item = document.createElement("li");
  item.textContent = fill(_("%(name)s: uploading…"), { name: file.name });
  list.append(item);
  let problem = _("the portal does not answer");
  try {
    const answer = await fetch("/api/v1/files", {
      method: "POST", body: file, credentials: "same-origin",
      headers: { "X-CSRFToken": csrf, "Berth-Tenant": tenant, "Content-Type": "application/octet-stream" },
    });
    const told = await answer.json();
    if (answer.ok) {
      const entry = { path: file.name, sha256: told.sha256, size: told.size };
      files.push(entry);
      item.replaceWith(row(entry));
      keep();
      return;
    }
    problem = told.detail || problem;
  } catch { /* said below */ }
  item.className = "field-error";
  item.setAttribute("role", "alert");
  item.textContent = fill(_("%(name)s was not uploaded: %(problem)s"), { name: file.name, problem });
}

let waiting = 0;
form.querySelector("[data-file-input]").addEventListener("change", async (event) => {
  const chosen = [...event.target.files];
  event.target.value = "";
  waiting += 1;
  for (const file of chosen) await upload(file); // one after the other: a big set must not choke the line
  waiting -= 1;
});
// runs before the form is marked as sent
form.addEventListener("submit", (event) => {
  if (!waiting) return;
  event.preventDefault();
  event.stopPropagation();
  list.lastElementChild?.scrollIntoView({ block: "nearest" });
});

form.elements.time_limit.addEventListener("change", (event) => {
  event.target.classList.toggle("is-invalid", seconds(event.target.value) === null);
});
for (const name of ["memory", "shm", "gpu_memory"]) {
  form.elements[name].addEventListener("change", ({ target }) => {
    target.classList.toggle("is-invalid", mib(target.value) === null && (target.value !== "" || name !== "gpu_memory"));
  });
}
form.addEventListener("input", preview);
list.append(...files.map(row));
preview();
