// A small row per GPU of the job: use, memory, temperature, power, and the use over the last minutes.
import { _ } from "./words.js";

const POINTS = 120;
const SVG = "http://www.w3.org/2000/svg";

export class GpuRows {
  constructor(box, { url, tenant }) {
    this.box = box;
    this.url = url;
    this.headers = { "Berth-Tenant": tenant };
    this.open([]);
  }

  open(uuids) {
    this.uuids = uuids;
    this.readings = new Map(uuids.map((uuid) => [uuid, []]));
    this.since = "";
    this.box.hidden = true;
  }

  async pull() {
    if (!this.uuids.length) return;
    const query = this.since ? `?since=${encodeURIComponent(this.since)}` : "";
    const answer = await fetch(this.url + query, { headers: this.headers, credentials: "same-origin" }).catch(() => null);
    if (!answer?.ok) return;
    for (const reading of (await answer.json()).results) {
      const list = this.readings.get(reading.gpu_uuid);
      if (!list || (list.length && list[list.length - 1].at >= reading.at)) continue;
      list.push(reading);
      if (list.length > POINTS) list.shift();
      if (reading.at > this.since) this.since = reading.at;
    }
    this.render();
  }

  render() {
    this.box.hidden = ![...this.readings.values()].some((list) => list.length);
    this.box.replaceChildren(...this.uuids.map((uuid, i) => row(uuid, i, this.readings.get(uuid))));
  }
}

function row(uuid, i, list) {
  const el = document.createElement("div");
  el.className = "card gpu-row";
  el.title = uuid;
  const last = list[list.length - 1] ?? {};
  const name = document.createElement("strong");
  name.textContent = `GPU ${i + 1}`;
  el.append(
    name, spark(list.map((r) => r.utilisation_percent)),
    value(last.utilisation_percent, "%", 0, _("use")),
    value(last.memory_used_mib == null ? null : last.memory_used_mib / 1024, "GiB", 1, _("memory")),
    value(last.temperature_celsius, "°C", 0, _("temperature")),
    value(last.power_watts, "W", 0, _("power")),
  );
  return el;
}

function value(number, unit, digits, name) {
  const el = document.createElement("span");
  el.title = name;
  el.className = number == null ? "val unknown" : "val";
  el.textContent = number == null ? _("unknown") : `${number.toFixed(digits)} ${unit}`;
  return el;
}

// Unknown values leave a gap, they are not drawn as zero.
function spark(values) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${POINTS} 24`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const begin = POINTS - values.length;
  let line = "";
  let pen = false;
  values.forEach((v, i) => {
    if (v == null) { pen = false; return; }
    line += `${pen ? "L" : "M"}${begin + i} ${(23 - (v / 100) * 22).toFixed(1)}`;
    pen = true;
  });
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", line || "M0 0");
  svg.append(path);
  return svg;
}
