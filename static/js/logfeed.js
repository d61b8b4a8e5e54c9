// Fetches an attempt's log into a view: first its tail, then what follows; never a byte twice, none left out
// unless the view says so ("load earlier").
import { single } from "./live.js";
import { KEPT_BYTES, LOADED_BYTES_MOST } from "./logview.js";

const FIRST_TAIL = 256 * 1024;
const CHUNK = 1024 * 1024;
const EARLIER = 512 * 1024;
const FAR_BEHIND = KEPT_BYTES / 2;

export class LogFeed {
  constructor({ url, tenant, view, onChange }) {
    this.url = url;
    this.headers = { "Berth-Tenant": tenant };
    this.view = view;
    this.onChange = onChange;
    this.attempt = 0;
    this.length = 0;
    this.complete = false;
    this.truncated = false;
    this.generation = 0;
    this.pull = single(() => this.catchUp());
  }

  // Turns to an attempt (0: none yet) and begins anew.
  open(attempt) {
    this.generation += 1;
    this.attempt = attempt;
    this.length = 0;
    this.complete = this.truncated = this.begun = false;
    this.view.reset(0);
    this.onChange();
    return attempt ? this.pull() : null;
  }

  // Reads until nothing more stands; a failure is left to the next hint, poll or reconnect.
  async catchUp() {
    const generation = this.generation;
    while (this.attempt && generation === this.generation) {
      const offset = this.begun ? this.view.end : -FIRST_TAIL;
      const part = await this.read(offset, CHUNK);
      if (!part || generation !== this.generation) return;
      this.take(part);
      if (this.view.end >= this.length) return;
    }
  }

  take({ bytes, begin, length, complete, truncated }) {
    this.length = Math.max(this.length, length);
    this.complete = complete;
    this.truncated = truncated;
    if (!this.begun) {
      const skip = begin === 0 ? 0 : bytes.indexOf(10) + 1; // a tail begins with a whole line
      this.view.reset(begin + skip);
      this.view.append(bytes.subarray(skip));
      this.begun = true;
    } else if (begin === this.view.end) {
      this.view.append(bytes);
    }
    if (this.length - this.view.end > FAR_BEHIND) this.begun = false; // too fast to show all: go on at the tail
    this.onChange();
  }

  get mayLoadEarlier() {
    return this.view.start > 0 && this.view.bytes + EARLIER <= LOADED_BYTES_MOST;
  }

  async earlier() {
    const generation = this.generation;
    const end = this.view.start;
    const begin = Math.max(0, end - EARLIER);
    const part = await this.read(begin, end - begin);
    if (!part || generation !== this.generation || end !== this.view.start || part.bytes.length !== end - begin) return;
    this.view.prepend(part.bytes, begin);
    this.onChange();
  }

  async read(offset, limit) {
    const url = `${this.url}?attempt=${this.attempt}&offset=${offset}&limit=${limit}`;
    try {
      const answer = await fetch(url, { headers: this.headers, credentials: "same-origin", cache: "no-store" });
      if (!answer.ok) return null;
      const told = (name) => answer.headers.get(`Berth-${name}`);
      return {
        bytes: new Uint8Array(await answer.arrayBuffer()),
        begin: Number(told("Offset")),
        length: Number(told("Length")),
        complete: told("Complete") === "true",
        truncated: told("Truncated") === "true",
      };
    } catch {
      return null;
    }
  }
}
