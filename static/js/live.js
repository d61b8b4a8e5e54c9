// One WebSocket to /ws/live: subscriptions survive a break, the state is shown, hints are handed on.
// Hints carry no content; after each (re)connect the server tells the object's seq, and the page refetches what it missed.
import { _, fill } from "./words.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
const SILENCE_MS = 45000; // the server pings every 20 s
const STALE_S = 40;
const SIGNED_OUT = 4401;

export class Live {
  constructor() {
    this.topics = new Map();
    this.state = "connecting";
    this.wait = FIRST_WAIT_MS;
    this.heard = Date.now();
  }

  // handler: {onSeq(seq), onHint(hint), onRefetch(), onError(code)}
  subscribe(topic, handler) {
    this.topics.set(topic, handler);
    this.send({ subscribe: topic });
  }

  start() {
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.hurry(); });
    addEventListener("pagehide", () => { this.leaving = true; this.socket?.close(); });
    addEventListener("pageshow", (event) => { if (event.persisted) { this.leaving = false; this.connect(); } });
    setInterval(() => this.tick(), 1000);
    this.connect();
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = null;
    this.heard = Date.now();
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live`);
    this.socket = socket;
    socket.onopen = () => {
      this.heard = Date.now();
      this.wait = FIRST_WAIT_MS;
      for (const topic of this.topics.keys()) this.send({ subscribe: topic });
      this.show("live");
    };
    socket.onmessage = (event) => { if (socket === this.socket) this.take(JSON.parse(event.data)); };
    socket.onclose = (event) => { if (socket === this.socket) this.closed(event.code); };
  }

  closed(code) {
    this.socket = null;
    if (this.leaving) return;
    if (code === SIGNED_OUT) { this.show("signed-out"); return; }
    this.show("reconnecting");
    this.timer = setTimeout(() => this.connect(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  hurry() {
    if (this.timer) { this.wait = FIRST_WAIT_MS; this.connect(); }
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  take(message) {
    this.heard = Date.now();
    const handler = this.topics.get(message.topic);
    if (message.type === "ping") this.send({ pong: message.n });
    else if (message.type === "subscribed") handler?.onSeq?.(message.seq);
    else if (message.type === "hint") handler?.onHint?.(message.hint);
    else if (message.type === "refetch") handler?.onRefetch?.();
    else if (message.type === "error") handler?.onError?.(message.code);
  }

  // a half-open connection says nothing: after a while of silence it is made anew
  tick() {
    if (this.socket?.readyState === WebSocket.OPEN && Date.now() - this.heard > SILENCE_MS) {
      const silent = this.socket;
      this.closed(0);
      silent.close();
    }
    this.render();
  }

  show(state) {
    this.state = state;
    this.render();
  }

  updated() {
    this.at = Date.now();
    this.render();
  }

  render() {
    const el = document.querySelector("[data-live]");
    if (!el) return;
    this.at ??= Date.parse(el.dataset.at) || Date.now();
    // while the connection lives, silence means that nothing has changed
    const seconds = Math.max(0, Math.round((Date.now() - (this.state === "live" ? Math.max(this.at, this.heard) : this.at)) / 1000));
    const age = fill(_("updated %(n)s s ago"), { n: seconds });
    const words = { connecting: _("connecting…"), live: age, reconnecting: `${_("reconnecting…")} ${age}`, "signed-out": _("Signed out: load the page again") };
    el.dataset.state = this.state;
    el.dataset.stale = seconds > STALE_S ? "1" : "0";
    const text = el.querySelector("[data-live-text]");
    if (text.textContent !== words[this.state]) text.textContent = words[this.state];
    // a screen reader hears a change of state, not every second
    el.setAttribute("aria-live", this.spoken === this.state ? "off" : "polite");
    this.spoken = this.state;
  }
}

// Runs an async act at most once at a time; what is asked meanwhile is done once more afterwards.
export function single(act, pauseMs = 0) {
  let running = false;
  let again = false;
  const run = async () => {
    if (running) { again = true; return; }
    running = true;
    try {
      do {
        again = false;
        await act();
        if (pauseMs) await new Promise((done) => setTimeout(done, pauseMs));
      } while (again);
    } finally {
      running = false;
    }
  };
  return run;
}
