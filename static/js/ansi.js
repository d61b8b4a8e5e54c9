// Raw log bytes as lines of styled runs, as a terminal would show them: UTF-8 with replacement, "\r" and "\b" move back
// and overwrite, SGR colours become classes, NUL shows as ␀, other escape sequences and controls are dropped.
const LONGEST_LINE = 8192; // characters; a longer line is broken for display only
const LONGEST_ESCAPE = 4096;
const SPECIAL = /[\u0000-\u0008\u000a-\u001f\u007f\u009b]/g;
const CSI = /\u001b\[([0-?]*)[ -/]*([@-~])/y;
const OSC = /\u001b[\]P^_X][^\u0007\u001b]*(?:\u0007|\u001b\\)/y;
const SHORT = /\u001b[ -/]*[0-~]/y;

export class LineReader {
  constructor() {
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    this.kept = ""; // the begin of an escape sequence that was cut by the end of a chunk
    this.style = new Style();
    this.clear();
  }

  clear() {
    this.runs = []; // of the line that is not ended yet: [text, classes]
    this.length = 0;
    this.column = 0;
  }

  // Takes bytes; returns the lines that they end, each a list of runs. What follows stays in `runs`.
  feed(bytes, last = false) {
    const text = this.kept + this.decoder.decode(bytes, { stream: !last });
    this.kept = "";
    const lines = [];
    let at = 0;
    SPECIAL.lastIndex = 0;
    for (let found = SPECIAL.exec(text); found; found = SPECIAL.exec(text)) {
      this.write(text.slice(at, found.index), lines);
      at = this.control(text, found.index, lines, last);
      if (at < 0) return lines;
      SPECIAL.lastIndex = at;
    }
    this.write(text.slice(at), lines);
    return lines;
  }

  // Handles the control character at `at`; returns where to go on, or -1 when the rest must wait for more bytes.
  control(text, at, lines, last) {
    switch (text[at]) {
      case "\n": this.endLine(lines); return at + 1;
      case "\r": this.column = 0; return at + 1;
      case "\b": this.column = Math.max(0, this.column - 1); return at + 1;
      case "\u0000": this.write("␀", lines); return at + 1;
      case "\u001b": return this.escape(text, at, last);
      default: return at + 1;
    }
  }

  escape(text, at, last) {
    for (const pattern of [CSI, OSC, SHORT]) {
      if (pattern === SHORT && "[]P^_X".includes(text[at + 1] ?? "[")) continue;
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) continue;
      if (pattern === CSI && found[2] === "m") this.style.apply(found[1]);
      else if (pattern === CSI && found[2] === "K") this.erase(found[1]);
      return at + found[0].length;
    }
    if (!last && text.length - at < LONGEST_ESCAPE) { this.kept = text.slice(at); return -1; }
    return at + 1;
  }

  erase(how) {
    if (how === "2" || how === "1") { this.runs = [["" .padEnd(this.column), ""]]; this.length = this.column; }
    else { this.runs = cut(this.runs, 0, this.column); this.length = Math.min(this.length, this.column); }
  }

  write(text, lines) {
    for (let at = 0; at < text.length; ) {
      if (this.column >= LONGEST_LINE) this.endLine(lines);
      const part = text.slice(at, at + LONGEST_LINE - this.column);
      this.put(part);
      at += part.length;
    }
  }

  put(text) {
    const classes = this.style.classes;
    if (this.column < this.length) {
      this.runs = [...cut(this.runs, 0, this.column), [text, classes], ...cut(this.runs, this.column + text.length, this.length)];
    } else {
      const tail = this.runs[this.runs.length - 1];
      if (tail && tail[1] === classes) tail[0] += text;
      else this.runs.push([text, classes]);
    }
    this.column += text.length;
    this.length = Math.max(this.length, this.column);
  }

  endLine(lines) {
    lines.push(this.runs);
    this.clear();
  }
}

function cut(runs, from, to) {
  const kept = [];
  let at = 0;
  for (const [text, classes] of runs) {
    const part = text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (part) kept.push([part, classes]);
    at += text.length;
  }
  return kept;
}

class Style {
  constructor() { this.reset(); }

  reset() {
    this.flags = new Set();
    this.fore = this.back = "";
    this.classes = "";
  }

  apply(parameters) {
    const codes = parameters.split(/[;:]/).map((p) => Number(p) || 0);
    for (let i = 0; i < codes.length; i += 1) i += this.one(codes, i);
    this.classes = [...this.flags, this.fore, this.back].filter(Boolean).join(" ");
  }

  // Applies one code; returns how many of the following ones it used up.
  one(codes, i) {
    const code = codes[i];
    const flag = { 1: "a-b", 2: "a-d", 3: "a-i", 4: "a-u", 7: "a-r" }[code];
    const off = { 22: ["a-b", "a-d"], 23: ["a-i"], 24: ["a-u"], 27: ["a-r"] }[code];
    if (code === 0) this.reset();
    else if (flag) this.flags.add(flag);
    else if (off) off.forEach((name) => this.flags.delete(name));
    else if (code >= 30 && code <= 37) this.fore = `f${code - 30}`;
    else if (code >= 90 && code <= 97) this.fore = `f${code - 82}`;
    else if (code === 39) this.fore = "";
    else if (code >= 40 && code <= 47) this.back = `g${code - 40}`;
    else if (code >= 100 && code <= 107) this.back = `g${code - 92}`;
    else if (code === 49) this.back = "";
    else if (code === 38 || code === 48) return this.many(codes, i, code === 38);
    return 0;
  }

  // 256 colours and true colour come down to the nearest of the eight, which the theme keeps readable.
  many(codes, i, fore) {
    const indexed = codes[i + 1] === 5;
    const n = indexed ? fromIndex(codes[i + 2] ?? 0) : nearest(codes[i + 2] ?? 0, codes[i + 3] ?? 0, codes[i + 4] ?? 0);
    if (fore) this.fore = `f${n}`;
    else this.back = `g${n}`;
    return indexed ? 2 : 4;
  }
}

function fromIndex(n) {
  if (n < 16) return n;
  if (n >= 232) return n < 244 ? 0 : 7;
  const c = n - 16;
  return nearest(Math.floor(c / 36) * 51, (Math.floor(c / 6) % 6) * 51, (c % 6) * 51);
}

function nearest(r, g, b) {
  const high = Math.max(r, g, b);
  if (high - Math.min(r, g, b) < 40) return high < 128 ? 0 : 7;
  const half = high * 0.6;
  return (r > half ? 1 : 0) + (g > half ? 2 : 0) + (b > half ? 4 : 0);
}
