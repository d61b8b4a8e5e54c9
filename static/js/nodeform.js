// The form that adds a node: the same by CLI and API while one types; the password is never shown there.
const form = document.getElementById("node-form");

function preview() {
  const value = (name) => form.elements[name].value.trim();
  const node = { name: value("name"), address: value("address"), port: Number(value("port")) || 22, ssh_user: value("ssh_user") };
  if (value("expected_fingerprint")) node.expected_fingerprint = value("expected_fingerprint");
  const port = node.port === 22 ? "" : ` --port ${node.port}`;
  const print = node.expected_fingerprint ? ` --fingerprint ${node.expected_fingerprint}` : "";
  document.getElementById("preview-cli").textContent = `berth node add ${node.name || "NAME"} ${node.address || "ADDRESS"}${port} --user ${node.ssh_user || "root"}${print}`;
  document.getElementById("preview-api").textContent = `curl -H "Authorization: Bearer $BERTH_TOKEN" -H "Content-Type: application/json" \\\n  --data-binary @- ${form.dataset.url}/api/v1/nodes <<'JSON'\n${JSON.stringify(node, null, 2)}\nJSON`;
}

form.addEventListener("input", preview);
preview();
