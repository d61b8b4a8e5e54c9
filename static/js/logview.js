// Shows the lines of a log, bounded: whole blocks of about 64 KiB, the oldest leave when the page holds too much.
import { LineReader } from "./ansi.js";

const BLOCK_BYTES = 64 * 1024;
const HARD_BLOCK_BYTES = 1024 * 1024; // a block without any line end is closed here
export const KEPT_BYTES = 4 * 1024 * 1024;
export const LOADED_BYTES_MOST = 12 * 1024 * 1024; // with what was loaded by hand above
const NEWLINE = 10;
const MOST_HITS = 5000;

export class LogView {
  constructor(box, { onFollow, onTrim }) {
    this.box = box;
    this.onFollow = onFollow;
    this.onTrim = onTrim;
    this.now = document.createElement("div");
    this.now.className = "log-now";
    this.head = document.createElement("div");
    this.head.className = "log-earlier";
    this.head.hidden = true;
    this.foot = document.createElement("div");
    this.foot.className = "log-note";
    this.foot.hidden = true;
    this.follow = true;
    this.limit = KEPT_BYTES;
    box.replaceChildren(this.head, this.now, this.foot);
    box.addEventListener("scroll", () => this.scrolled());
    this.reset(0);
  }

  // Empties the view; the next bytes begin at `offset`.
  reset(offset) {
    for (const block of this.blocks ?? []) block.el.remove();
    this.blocks = [];
    this.start = this.end = offset;
    this.lines = 0;
    this.reader = new LineReader();
    this.limit = KEPT_BYTES;
    this.now.replaceChildren();
    this.hits = [];
  }

  get bytes() { return this.end - this.start; }

  // Appends bytes that begin at `this.end`.
  append(bytes) {
    for (let at = 0; at < bytes.length; ) {
      const block = this.openBlock();
      const to = blockEnd(bytes, at, BLOCK_BYTES - block.bytes);
      this.fill(block, this.reader.feed(bytes.subarray(at, to)));
      block.bytes += to - at;
      block.closed = (block.bytes >= BLOCK_BYTES && bytes[to - 1] === NEWLINE) || block.bytes >= HARD_BLOCK_BYTES;
      this.end += to - at;
      at = to;
    }
    this.now.replaceChildren(...nodes(this.reader.runs));
    this.trim();
    if (this.follow) this.toBottom();
  }

  openBlock() {
    const last = this.blocks[this.blocks.length - 1];
    if (last && !last.closed) return last;
    const block = { el: document.createElement("div"), start: this.end, bytes: 0, lines: 0, closed: false };
    block.el.className = "log-block";
    this.blocks.push(block);
    this.now.before(block.el);
    return block;
  }

  fill(block, lines) {
    const parts = [];
    for (const runs of lines) parts.push(...runs, ["\n", ""]);
    block.el.append(...nodes(parts));
    block.lines += lines.length;
    this.lines += lines.length;
  }

  // Puts bytes before the first ones; they end where the view begins.
  prepend(bytes, offset) {
    const begin = offset === 0 ? 0 : bytes.indexOf(NEWLINE) + 1; // a line cut at the front is left for the next load
    const reader = new LineReader();
    const block = { el: document.createElement("div"), start: offset + begin, bytes: bytes.length - begin, lines: 0, closed: true };
    block.el.className = "log-block";
    this.fill(block, reader.feed(bytes.subarray(begin), true));
    if (reader.length) block.el.append(...nodes([...reader.runs, ["\n", ""]]));
    const before = this.box.scrollHeight;
    this.head.after(block.el);
    this.blocks.unshift(block);
    this.start = block.start;
    this.limit = LOADED_BYTES_MOST;
    this.box.scrollTop += this.box.scrollHeight - before;
  }

  trim() {
    let dropped = false;
    while (this.bytes > this.limit && this.blocks.length > 1) {
      const block = this.blocks.shift();
      block.el.remove();
      this.lines -= block.lines;
      this.start = this.blocks[0].start;
      dropped = true;
    }
    if (dropped) this.onTrim();
  }

  setFollow(on) {
    this.follow = on;
    this.onFollow(on);
    if (on) this.toBottom();
  }

  toBottom() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  // Scrolling up lets go of the end, scrolling down to it takes hold again.
  scrolled() {
    const top = this.box.scrollTop;
    const atEnd = this.box.scrollHeight - top - this.box.clientHeight < 24;
    if (this.follow && !atEnd && top < (this.lastTop ?? 0)) this.setFollow(false);
    else if (!this.follow && atEnd && top > (this.lastTop ?? 0)) this.setFollow(true);
    this.lastTop = top;
  }

  // Finds text in what is loaded; returns how often.
  search(query) {
    this.hits = [];
    const wanted = query.toLowerCase();
    for (const el of wanted ? [...this.blocks.map((b) => b.el), this.now] : []) {
      const text = el.textContent.toLowerCase();
      for (let at = text.indexOf(wanted); at >= 0 && this.hits.length < MOST_HITS; at = text.indexOf(wanted, at + wanted.length)) {
        this.hits.push([el, at, at + wanted.length]);
      }
    }
    const ranges = this.hits.map(([el, from, to]) => rangeOf(el, from, to)).filter(Boolean);
    if (window.CSS?.highlights) {
      CSS.highlights.delete("log-hit-now");
      if (ranges.length) CSS.highlights.set("log-hit", new Highlight(...ranges));
      else CSS.highlights.delete("log-hit");
    }
    return this.hits.length;
  }

  // Shows the n-th hit.
  show(n) {
    const range = rangeOf(...this.hits[n]);
    if (!range) return;
    this.setFollow(false);
    if (window.CSS?.highlights) CSS.highlights.set("log-hit-now", new Highlight(range));
    this.hits[n][0].style.contentVisibility = "visible"; // otherwise its place is only estimated
    const place = range.getBoundingClientRect();
    const box = this.box.getBoundingClientRect();
    this.box.scrollTop += place.top - box.top - box.height / 2;
  }
}

function blockEnd(bytes, at, room) {
  if (bytes.length - at <= room) return bytes.length;
  const newline = bytes.indexOf(NEWLINE, at + Math.max(0, room - 1));
  return Math.min(newline < 0 ? bytes.length : newline + 1, at + HARD_BLOCK_BYTES);
}

// Text without a style goes into one text node, so that a long log has few nodes.
function nodes(runs) {
  const made = [];
  let plain = "";
  const flush = () => { if (plain) made.push(document.createTextNode(plain)); plain = ""; };
  for (const [text, classes] of runs) {
    if (!classes) { plain += text; continue; }
    flush();
    const span = document.createElement("span");
    span.className = classes;
    span.textContent = text;
    made.push(span);
  }
  flush();
  return made;
}

function rangeOf(el, from, to) {
  const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let at = 0;
  let begun = false;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const next = at + node.data.length;
    if (!begun && from < next) { range.setStart(node, from - at); begun = true; }
    if (begun && to <= next) { range.setEnd(node, to - at); return range; }
    at = next;
  }
  return null;
}
