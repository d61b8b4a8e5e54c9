// The form's values as the job spec that is submitted, and the same as YAML, CLI and curl.
const UNIT_S = { s: 1, m: 60, h: 3600, d: 86400 };

// Splits a command as a shell does: blanks, quotes, backslash. A quote that is not closed ends with the text.
export function words(text) {
  const found = [];
  let word = null;
  let quote = "";
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (quote) {
      if (c === quote) quote = "";
      else if (c === "\\" && quote === '"' && '"\\$`\n'.includes(text[i + 1] ?? "")) word += text[++i];
      else word += c;
    } else if (c === "'" || c === '"') { quote = c; word ??= ""; }
    else if (c === "\\" && i + 1 < text.length) { word = (word ?? "") + text[++i]; }
    else if (/\s/.test(c)) { if (word !== null) found.push(word); word = null; }
    else word = (word ?? "") + c;
  }
  if (word !== null) found.push(word);
  return found;
}

export function seconds(text) {
  const parts = [...text.toLowerCase().matchAll(/(\d+)\s*([smhd])/g)];
  if (!parts.length || text.toLowerCase().replace(/(\d+)\s*([smhd])/g, "").trim()) return null;
  return parts.reduce((sum, [, n, unit]) => sum + Number(n) * UNIT_S[unit], 0);
}

// Reads `512 MiB`, `4G` as MiB; null when it is no size.
export function mib(text) {
  const found = /^(\d+(?:\.\d+)?)\s*([mgt])i?b?$/i.exec(text.trim());
  return found ? Math.floor(Number(found[1]) * { m: 1, g: 1024, t: 1048576 }[found[2].toLowerCase()]) : null;
}

export function specOf(form) {
  const value = (name) => form.elements[name].value;
  const command = value("command");
  const spec = { name: value("name"), image: value("image"), command: form.elements.shell.checked ? ["sh", "-c", command] : words(command) };
  const env = {};
  for (const line of value("env").split("\n").filter((l) => l.trim())) {
    const at = line.indexOf("=");
    if (at > 0) env[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  if (Object.keys(env).length) spec.env = env;
  spec.gpus = Number(value("gpus")) || 0;
  if (value("gpu_model")) spec.gpu_model = value("gpu_model");
  if (mib(value("gpu_memory"))) spec.gpu_memory_mib = mib(value("gpu_memory"));
  spec.cpus = Number(value("cpus")) || 0;
  if (mib(value("memory")) !== null) spec.memory_mib = mib(value("memory"));
  if (mib(value("shm")) !== null) spec.shm_mib = mib(value("shm"));
  const limit = seconds(value("time_limit"));
  if (limit !== null) spec.time_limit_s = limit;
  if (Number(value("max_retries"))) spec.max_retries = Number(value("max_retries"));
  const files = JSON.parse(value("inputs") || "[]");
  if (files.length) spec.files = files.map(({ path, sha256 }) => ({ path, sha256 }));
  return spec;
}

// JSON strings are YAML strings; plain words need no quotes.
function scalar(v) {
  if (typeof v !== "string") return String(v);
  const plain = /^[A-Za-z_./][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+-]+)*$/.test(v) && !/^(true|false|yes|no|on|off|y|n|null|~)$/i.test(v) && !/^\.(inf|nan)$|^[.\d]+$/i.test(v);
  return plain ? v : JSON.stringify(v);
}

export function yaml(spec) {
  const lines = [];
  for (const [key, v] of Object.entries(spec)) {
    if (Array.isArray(v) && typeof v[0] === "object") {
      lines.push(`${key}:`);
      for (const item of v) Object.entries(item).forEach(([k, x], i) => lines.push(`${i ? "    " : "  - "}${k}: ${scalar(x)}`));
    } else if (Array.isArray(v)) lines.push(`${key}: [${v.map((x) => JSON.stringify(x)).join(", ")}]`);
    else if (typeof v === "object") { lines.push(`${key}:`); for (const [k, x] of Object.entries(v)) lines.push(`  ${k}: ${JSON.stringify(x)}`); }
    else lines.push(`${key}: ${scalar(v)}`);
  }
  return lines.join("\n");
}

const quoted = (word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// The environment goes by a file and the body of curl by standard input, so that no secret lands in a command line.
export function cli(spec, tenant) {
  const flags = [["tenant", tenant], ["name", spec.name], ["image", spec.image], ["gpus", spec.gpus], ["gpu-model", spec.gpu_model],
    ["gpu-memory", spec.gpu_memory_mib && `${spec.gpu_memory_mib}Mi`], ["cpus", spec.cpus], ["memory", spec.memory_mib && `${spec.memory_mib}Mi`],
    ["shm", spec.shm_mib && `${spec.shm_mib}Mi`], ["time", spec.time_limit_s && `${spec.time_limit_s}s`], ["retries", spec.max_retries]];
  const parts = flags.filter(([, v]) => v !== undefined && v !== "").map(([name, v]) => `--${name} ${quoted(String(v))}`);
  parts.push(...(spec.files ?? []).map((f) => `--file ${quoted(f.path)}`));
  if (spec.env) parts.push("--env-file job.env");
  const env = spec.env ? `cat > job.env <<'ENV'\n${Object.entries(spec.env).map(([k, v]) => `${k}=${v}`).join("\n")}\nENV\n` : "";
  return `${env}berth job submit ${parts.join(" \\\n    ")} \\\n    -- ${spec.command.map(quoted).join(" ")}`;
}

export function curl(spec, url, tenant) {
  const end = "\nJSON";
  return `curl -H "Authorization: Bearer $BERTH_TOKEN" -H "Berth-Tenant: ${tenant}" \\\n  -H "Content-Type: application/json" -H "Idempotency-Key: $(uuidgen)" \\\n  --data-binary @- ${url}/api/v1/jobs <<'JSON'\n${JSON.stringify(spec, null, 2)}${end}`;
}
