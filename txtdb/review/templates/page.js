"use strict";
// Draws the changed cells of a review. All text goes into the page as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  // Content numbers that are no config, as in the data.
  const MASKED = -1;
  const NOTHING = -2;
  // Kinds of gains, as in the data.
  const DERIVED = 1;
  const ENERGY = 2;
  const SHADES = 10;
  // Reviews with at most so many functionals show all their maps at once.
  const ALL_OPEN = 24;
  const LEGEND_OPEN = 6;
  // Gains in percent from which a colour is stronger.
  const STRONGER = [5, 10];
  // Losses in percent from which a map tells a multiple of what the old config needs.
  const TIMES_FROM_PCT = -99.5;
  const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const FLAG_BIT = new Map(data.flags.map(([name], number) => [name, 1 << number]));
  const GRAVE = data.flags.reduce((bits, [, , grave], number) => (grave ? bits | (1 << number) : bits), 0);
  const NO_EFFECT = FLAG_BIT.get("no-effect");

  const byId = (id) => document.getElementById(id);

  /** An element; attributes that are null or false are left out. */
  function el(name, attributes, ...content) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...content.filter((piece) => piece !== null && piece !== ""));
    return node;
  }

  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

  /** The symbol with a number: a … z, A … Z, aa, ab, … */
  function letter(number) {
    let text = "";
    for (let rest = number + 1; rest > 0; rest = Math.floor((rest - 1) / LETTERS.length)) {
      text = LETTERS[(rest - 1) % LETTERS.length] + text;
    }
    return text;
  }

  // ---- data → records ----

  class Cell {
    constructor(functional, values) {
      const [place, old, oldFile, oldLine, oldColumn, newFile, newLine, newColumn, flags, heirs, gain, noise, kind, gainFile, time, ...findings] = values;
      Object.assign(this, { functional, place, old, flags, gain: gain ?? null, noise: noise ?? null });
      const { files } = functional.table;
      this.isDerived = Boolean(kind & DERIVED);
      this.isEnergy = Boolean(kind & ENERGY);
      this.time = time || null;
      this.gainFile = files[gainFile] ?? "";
      this.oldSpan = oldFile < 0 ? "" : spanText(files[oldFile], oldLine, oldColumn);
      this.newSpan = newFile < 0 ? "" : spanText(files[newFile], newLine, newColumn);
      this.heirs = functional.table.heirs[heirs];
      this.findings = findings.map((number) => functional.table.findings[number]);
    }

    get kind() {
      if (this.flags & NO_EFFECT) return "idle";
      if (this.old === NOTHING) return "added";
      return this.functional.after[this.place] === NOTHING ? "removed" : "changed";
    }

    get flagRows() {
      return data.flags.filter((_, number) => this.flags & (1 << number));
    }
  }

  const spanText = (file, line, column) => (line ? `${file}:${line}:${column}` : file);

  class Functional {
    constructor(table, number, [values, runs, cells]) {
      Object.assign(this, { table, values, runs, number });
      this.anchor = `${table.anchor}/${values.join(",")}`;
      this.flags = cells.reduce((bits, cell) => bits | cell[8], 0);
      this.rawCells = cells;
      this.node = null;
      this.body = null;
    }

    get after() {
      const grid = [];
      for (const run of this.runs.split(" ")) {
        const [content, length] = run.split("*");
        const number = content === "-" ? MASKED : content === "." ? NOTHING : Number(content);
        for (let left = Number(length ?? 1); left > 0; left -= 1) grid.push(number);
      }
      return this.keep("after", grid);
    }

    get before() {
      const grid = this.after.slice();
      for (const cell of this.cells.values()) grid[cell.place] = cell.old;
      return this.keep("before", grid);
    }

    /** Place → changed cell, in the order of places. */
    get cells() {
      return this.keep("cells", new Map(this.rawCells.map((values) => [values[0], new Cell(this, values)])));
    }

    /** The configs of both sides, in order. */
    get configs() {
      const all = new Set([...this.before, ...this.after].filter((number) => number >= 0));
      return this.keep("configs", [...all].sort((a, b) => a - b));
    }

    keep(name, value) {
      Object.defineProperty(this, name, { value });
      return value;
    }

    get name() {
      return this.values.map((value, number) => `${this.table.keys[number]}=${value}`).join(" ");
    }

    /** Bins of a place, one for each axis. */
    bins(place) {
      const bins = [];
      for (const [, values] of [...this.table.axes].reverse()) {
        bins.unshift(values[place % values.length]);
        place = Math.floor(place / values.length);
      }
      return bins;
    }

    placeText(place) {
      return this.bins(place).map((bin, number) => `${this.table.axes[number][0]} ${bin}`).join(", ");
    }
  }

  const tables = data.tables.map((table) => ({ ...table, anchor: `${table.arch}/${table.iface}`, node: null, filled: false }));
  const functionals = [];
  for (const table of tables) {
    table.functionals = table.functionals.map((raw) => {
      const functional = new Functional(table, functionals.length, raw);
      functionals.push(functional);
      return functional;
    });
  }

  // ---- words ----

  const valueText = (value) => (value === null ? "none" : String(value));

  function contentText(table, number) {
    if (number === NOTHING) return "nothing";
    if (number === MASKED) return "masked";
    return table.fields.map((field, at) => `${field}=${valueText(table.configs[number][at])}`).join(" ");
  }

  /** [field, old, new] of all fields; a side without a config has empty texts. */
  function fieldRows(table, old, now) {
    const side = (number, at) => (number < 0 ? "" : valueText(table.configs[number][at]));
    return table.fields.map((field, at) => [field, side(old, at), side(now, at)]);
  }

  function changeText(table, old, now, arrow) {
    if (old < 0 || now < 0) return `${contentText(table, old)}${arrow}${contentText(table, now)}`;
    const rows = fieldRows(table, old, now).filter(([, a, b]) => a !== b);
    return rows.map(([field, a, b]) => `${field} ${a}${arrow}${b}`).join(", ");
  }

  const KIND_WORDS = { changed: "changed", added: "added", removed: "removed", idle: "written otherwise, same for lookups" };

  const signed = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(1)} %`;

  /** What goes with a gain of energy. */
  function timeText([gain, noise]) {
    const word = Math.abs(gain) <= noise ? "within the noise" : gain < 0 ? "slower" : "faster";
    return `time ${signed(gain)} (${word}), noise ${noise.toFixed(1)} %, by the same samples`;
  }

  function gainText(cell) {
    const energy = cell.isEnergy ? ` (${cell.gain < 0 ? "more" : "less"} energy)` : "";
    return `gain ${signed(cell.gain)}${energy}, noise ${cell.noise.toFixed(1)} %${cell.isDerived ? ", derived" : ""}`;
  }

  const gainSource = (cell) => (cell.isDerived ? ": from samples of both configs, in a run that decided otherwise: " : ", by ");

  /** All that the panel says of a cell, for those who hear it. */
  function spoken(functional, place) {
    const { table } = functional;
    const cell = functional.cells.get(place);
    const where = functional.placeText(place);
    if (!cell) return `${where}: unchanged, ${contentText(table, functional.after[place])}`;
    const parts = [`${where}: ${KIND_WORDS[cell.kind]}`];
    if (cell.kind !== "idle") parts.push(changeText(table, cell.old, functional.after[place], " to "));
    if (cell.gain !== null) parts.push(gainText(cell));
    if (cell.time) parts.push(timeText(cell.time));
    const flags = cell.flagRows.map(([name]) => name);
    if (flags.length) parts.push(`flags: ${flags.join(", ")}`);
    return parts.join(". ");
  }

  /** The most frequent change of a functional, and how many other ones it has. */
  function gist(functional) {
    const texts = new Map();
    for (const cell of functional.cells.values()) {
      const text = cell.kind === "idle" ? KIND_WORDS.idle : changeText(functional.table, cell.old, functional.after[cell.place], "→");
      texts.set(text, (texts.get(text) ?? 0) + 1);
    }
    const [[text]] = [...texts].sort((a, b) => b[1] - a[1]);
    return texts.size > 1 ? `${text}; ${count(texts.size - 1, "other change")}` : text;
  }

  // ---- maps ----

  /** A bin in as few letters as a column has room for: 8192 is 8K. */
  const binText = (bin) => (bin >= 1024 && bin % 1024 === 0 ? `${bin / 1024}K` : String(bin));

  /** Content number → [text, class] in the colours that are chosen. */
  function painter(functional) {
    const { table } = functional;
    const at = table.fields.indexOf(byId("paint").value);
    const { configs } = functional;
    const shade = (rank, ranks) => `s${ranks < 2 ? SHADES / 2 : Math.round((rank / (ranks - 1)) * (SHADES - 1))}`;
    const empty = (number) => (number === MASKED ? ["–", "none"] : ["", "none"]);
    if (at < 0) {
      const ranks = new Map(configs.map((number, rank) => [number, rank]));
      return (number) => (number < 0 ? empty(number) : [letter(ranks.get(number)), shade(ranks.get(number), configs.length)]);
    }
    const values = [...new Set(table.configs.map((config) => config[at]))].sort((a, b) => a - b);
    const short = (value) => (value === true ? "T" : value === false ? "F" : valueText(value));
    return (number) => {
      if (number < 0) return empty(number);
      const value = table.configs[number][at];
      return [short(value), shade(values.indexOf(value), values.length)];
    };
  }

  const MARKS = { changed: "≠", added: "+", removed: "−", idle: "=" };

  /** How many times as much as before, in few letters. */
  const timesText = (times) => `×${times < 9.95 ? times.toFixed(1) : times < 999.5 ? Math.round(times) : "999+"}`;

  function gainMark(cell) {
    if (Math.abs(cell.gain) <= cell.noise) return ["≈", "noise"];
    const strength = 1 + STRONGER.filter((limit) => Math.abs(cell.gain) >= limit).length;
    const text = cell.gain <= TIMES_FROM_PCT ? timesText(1 - cell.gain / 100) : `${cell.gain < 0 ? "−" : "+"}${Math.round(Math.abs(cell.gain))}`;
    return [`${text}${cell.isEnergy ? "E" : ""}`, `${cell.gain < 0 ? "loss" : "gain"}${strength}`];
  }

  function changeMark(functional, place) {
    const cell = functional.cells.get(place);
    if (!cell) return ["", functional.after[place] < 0 ? "none" : "same"];
    const [text, shade] = cell.gain === null || cell.kind === "idle" ? [MARKS[cell.kind], cell.kind] : gainMark(cell);
    return [text, cell.flags & GRAVE ? `${shade} grave` : shade];
  }

  /** The last two axes: bins of rows and columns, and how many slices lie over them. */
  function shape(functional) {
    const bins = functional.table.axes.map(([, values]) => values);
    const columns = bins.at(-1);
    const rows = bins.length > 1 ? bins.at(-2) : [null];
    return { rows, columns, size: rows.length * columns.length };
  }

  function drawMap(functional, slice, title, mark, isGrid) {
    const { rows, columns, size } = shape(functional);
    const first = Math.min(...[...functional.cells.keys()].filter((place) => Math.floor(place / size) === slice));
    const label = isGrid ? `${title}: ${functional.table.arch} ${functional.table.iface}, ${functional.name}` : null;
    const table = el("table", { class: `map ${title.toLowerCase()}`, role: isGrid && "grid", "aria-label": label }, el("caption", {}, title));
    const corner = rows[0] === null ? null : el("td", { "aria-hidden": "true", class: "corner" });
    const head = el("tr", {}, corner, ...columns.map((bin) => el("th", { scope: "col", title: bin }, binText(bin))));
    const body = rows.map((bin, row) => {
      const cells = columns.map((_, column) => {
        const place = slice * size + row * columns.length + column;
        const [text, shade] = mark(place);
        const edited = functional.cells.has(place) ? " edited" : "";
        const grid = isGrid ? { role: "gridcell", tabindex: place === first ? 0 : -1, "aria-label": spoken(functional, place) } : {};
        return el("td", { class: `${shade}${edited}`, "data-place": place, ...grid }, text);
      });
      return el("tr", {}, bin === null ? null : el("th", { scope: "row", title: bin }, binText(bin)), ...cells);
    });
    table.append(el("thead", {}, head), el("tbody", {}, ...body));
    return table;
  }

  function drawSlice(functional, slice) {
    const { axes } = functional.table;
    const { size } = shape(functional);
    const bins = functional.bins(slice * size);
    const fixed = axes.slice(0, -2).map(([name], number) => `${name} ${bins[number]}`);
    const rows = axes.length > 1 ? [`rows: ${axes.at(-2)[0]}`] : [];
    const words = [...fixed, ...rows, `columns: ${axes.at(-1)[0]}`].join(" · ");
    const paint = painter(functional);
    const maps = el(
      "div",
      { class: "maps" },
      drawMap(functional, slice, "Before", (place) => paint(functional.before[place]), false),
      drawMap(functional, slice, "After", (place) => paint(functional.after[place]), false),
      drawMap(functional, slice, "Change", (place) => changeMark(functional, place), true),
    );
    return el("figure", {}, el("figcaption", {}, words), maps);
  }

  function legend(functional) {
    const { table, configs } = functional;
    const uses = (grid, number) => String(grid.filter((other) => other === number).length);
    const head = ["", ...table.fields, "cells before", "after"].map((title) => el("th", { scope: "col" }, title));
    const rows = configs.map((number, rank) => {
      const values = table.configs[number].map((value) => el("td", {}, valueText(value)));
      const counts = [functional.before, functional.after].map((grid) => el("td", {}, uses(grid, number)));
      return el("tr", {}, el("th", { scope: "row" }, letter(rank)), ...values, ...counts);
    });
    const list = el("table", { class: "list" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
    const summary = el("summary", { class: "quiet" }, `${count(configs.length, "config")}, by letter`);
    return el("details", { class: "legend", open: configs.length <= LEGEND_OPEN }, summary, el("div", { class: "wide" }, list));
  }

  /** Draw the maps of a functional unless they are there. */
  function draw(functional) {
    if (!functional.body || functional.body.classList.contains("drawn")) return;
    const { size } = shape(functional);
    const slices = new Set([...functional.cells.keys()].map((place) => Math.floor(place / size)));
    const others = functional.after.length / size - slices.size;
    const note = others ? el("p", { class: "quiet" }, `${count(others, "slice")} without a change left out`) : null;
    functional.body.replaceChildren(...[...slices].sort((a, b) => a - b).map((slice) => drawSlice(functional, slice)));
    if (note) functional.body.append(note);
    functional.body.append(legend(functional));
    functional.body.classList.add("drawn");
  }

  // Maps are drawn when they come near the window, so that a page of thousands is quick.
  const nearWindow = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting) draw(functionals[entry.target.dataset.functional]);
    },
    { rootMargin: "600px" },
  );

  // ---- sections ----

  function functionalNode(functional) {
    const { table } = functional;
    const title = functional.values.flatMap((value, number) => [el("span", {}, `${table.keys[number]} `, el("b", {}, value)), " "]);
    const grave = data.flags.filter(([, , isGrave], number) => isGrave && functional.flags & (1 << number));
    functional.body = el("div", { class: "body", "data-functional": functional.number });
    functional.node = el(
      "details",
      { class: "functional", "data-anchor": functional.anchor, open: functionals.length <= ALL_OPEN || functional === table.functionals[0] },
      el(
        "summary",
        {},
        el("h4", {}, ...title),
        el("span", { class: "quiet" }, count(functional.rawCells.length, "cell")),
        el("em", {}, gist(functional)),
        ...grave.map(([name, words]) => el("span", { class: "chip grave", title: words }, name)),
      ),
      functional.body,
    );
    if (functionals.length <= ALL_OPEN) draw(functional);
    else nearWindow.observe(functional.body);
    return functional.node;
  }

  function notes(table) {
    const lines = table.sources.map(([file, cells, origin, why]) =>
      el("li", {}, el("code", {}, file), ` sets ${count(cells, "cell")}${origin && `; origin: ${origin}`}${why && `; why: ${why}`}`),
    );
    if (table.common.length) {
      const texts = table.common.map(([text, cells]) => `${text} (${cells.toLocaleString("en")})`);
      const more = table.more ? `; ${table.more.toLocaleString("en")} others` : "";
      lines.push(el("li", {}, `Most frequent: ${texts.join("; ")}${more}`));
    }
    if (table.moves) lines.push(el("li", {}, `Changes with it: ${table.moves}`));
    return el("ul", { class: "notes" }, ...lines);
  }

  /** Put the functionals into a table's section unless they are there. */
  function fill(table) {
    if (table.filled) return;
    table.filled = true;
    table.node.append(el("div", {}, notes(table), ...table.functionals.map(functionalNode)));
    for (const functional of table.functionals) functional.node.hidden = !shown(functional);
  }

  function tableNode(table, open) {
    const cells = table.functionals.reduce((sum, functional) => sum + functional.rawCells.length, 0);
    const words = `${count(cells, "cell")} in ${count(table.functionals.length, "functional")}`;
    const summary = el("summary", {}, el("h3", {}, `${table.arch} ${table.iface}`), el("span", { class: "quiet" }, words));
    table.node = el("details", { class: "table", id: table.anchor, open }, summary);
    table.node.addEventListener("toggle", () => table.node.open && fill(table));
    if (open) fill(table);
    return table.node;
  }

  // ---- the panel ----

  let pinned = null;

  function sideTable(functional, place) {
    const { table } = functional;
    const cell = functional.cells.get(place);
    const now = functional.after[place];
    const old = cell ? cell.old : now;
    const rows = fieldRows(table, old, now).map(([field, a, b]) => {
      const differs = a !== b;
      const mark = el("td", {}, differs ? "≠" : "");
      return el("tr", { class: differs && "differs" }, mark, el("th", { scope: "row" }, field), el("td", {}, a), el("td", {}, b));
    });
    const states = [old, now].map((number) => (number < 0 ? contentText(table, number) : ""));
    const heads = ["", "field", "before", "after"].map((title) => el("th", { scope: "col" }, title));
    const state = states.some(Boolean) ? [el("tr", {}, el("td", {}), el("th", { scope: "row" }, "cell"), ...states.map((text) => el("td", {}, text)))] : [];
    return el("table", { class: "config" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...state, ...rows));
  }

  function cellDetails(cell) {
    const origin = (title, span) => (span ? el("p", {}, `${title} by `, el("code", {}, span)) : null);
    const flags = cell.flagRows.map(([name, words, grave]) => el("li", {}, el("span", { class: grave ? "chip grave" : "chip" }, name), ` ${words}`));
    const findings = cell.findings.map(([rule, severity, message, span]) => el("li", {}, `${severity}: ${message} [${rule}] `, el("code", {}, span)));
    return [
      cell.gain === null ? null : el("p", {}, gainText(cell), gainSource(cell), el("code", {}, cell.gainFile)),
      cell.time ? el("p", {}, timeText(cell.time)) : null,
      flags.length ? el("ul", {}, ...flags) : null,
      findings.length ? el("ul", {}, ...findings) : null,
      cell.heirs.length ? el("p", {}, `Changes with it: ${cell.heirs.join(", ")}`) : null,
      origin("Was set", cell.oldSpan),
      origin("Is set", cell.newSpan),
    ].filter(Boolean);
  }

  function show(functional, place) {
    const { table } = functional;
    const cell = functional.cells.get(place);
    const parts = [
      el("h3", {}, functional.placeText(place)),
      el("p", { class: "quiet" }, `${table.arch} ${table.iface}: ${functional.name}`),
      el("p", {}, el("strong", {}, cell ? KIND_WORDS[cell.kind] : "unchanged")),
      sideTable(functional, place),
      ...(cell ? cellDetails(cell) : []),
    ];
    byId("cell").replaceChildren(...parts);
    for (const other of document.querySelectorAll(".map td.at")) other.classList.remove("at");
    for (const same of functional.body.querySelectorAll(`td[data-place="${place}"]`)) same.classList.add("at");
  }

  /** The functional and place of a cell in a map, or null. */
  function located(target) {
    const node = target.closest("td[data-place]");
    const body = node && node.closest("[data-functional]");
    return body ? { functional: functionals[body.dataset.functional], place: Number(node.dataset.place), node } : null;
  }

  const gridCell = (functional, place) => functional.body.querySelector(`[role="grid"] td[data-place="${place}"]`);

  function pin(functional, place) {
    const node = gridCell(functional, place);
    for (const other of node.closest("table").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    node.tabIndex = 0;
    pinned = { functional, place };
    show(functional, place);
    nameAddress(`${functional.anchor}@${functional.bins(place).join(",")}`);
  }

  // Browsers allow only so many changes of the address in a short time.
  let addressTimer = 0;
  function nameAddress(anchor) {
    clearTimeout(addressTimer);
    addressTimer = setTimeout(() => history.replaceState(null, "", `#${encodeURI(anchor)}`), 300);
  }

  // ---- movement ----

  /** Open, draw and focus a cell. */
  function visit(functional, place) {
    functional.table.node.open = true;
    fill(functional.table);
    functional.node.open = true;
    draw(functional);
    // A slice without a change is not drawn: the first changed cell stands in.
    const node = gridCell(functional, place) ?? functional.body.querySelector('[role="grid"] [tabindex="0"]');
    node.focus({ preventScroll: true });
    const scroll = () => node.scrollIntoView({ block: "center", inline: "nearest" });
    scroll();
    // Once more when the maps that came near the window are drawn.
    requestAnimationFrame(() => requestAnimationFrame(scroll));
  }

  const chosen = () => ({ arch: byId("arch").value, iface: byId("iface").value, flag: FLAG_BIT.get(byId("flag").value) ?? 0 });

  function shown(functional, filter = chosen()) {
    const { arch, iface } = functional.table;
    return (!filter.arch || filter.arch === arch) && (!filter.iface || filter.iface === iface) && (!filter.flag || Boolean(functional.flags & filter.flag));
  }

  /** The changed cells that the filters leave, as [functional, place]. */
  function remaining() {
    const filter = chosen();
    return functionals
      .filter((functional) => shown(functional, filter))
      .flatMap((functional) => functional.rawCells.filter((cell) => !filter.flag || cell[8] & filter.flag).map((cell) => [functional, cell[0]]));
  }

  function step(direction) {
    const changes = remaining();
    if (!changes.length) return;
    const rank = ([functional, place]) => [functional.number, place];
    const here = pinned ? [pinned.functional.number, pinned.place] : [-1, 0];
    const compare = ([a, b]) => a - here[0] || b - here[1];
    const ahead = direction > 0 ? changes.findIndex((item) => compare(rank(item)) > 0) : changes.findLastIndex((item) => compare(rank(item)) < 0);
    const index = ahead >= 0 ? ahead : direction > 0 ? 0 : changes.length - 1;
    visit(...changes[index]);
    byId("status").textContent = `change ${(index + 1).toLocaleString("en")} of ${changes.length.toLocaleString("en")}`;
  }

  function applyFilters() {
    const filter = chosen();
    for (const table of tables) {
      const left = table.functionals.filter((functional) => shown(functional, filter));
      table.node.hidden = !left.length;
      if (table.filled) for (const functional of table.functionals) functional.node.hidden = !left.includes(functional);
    }
    byId("status").textContent = `${count(remaining().length, "changed cell")} shown`;
  }

  function setAllOpen(open) {
    for (const table of tables) {
      if (open) fill(table);
      table.node.open = open;
    }
    for (const functional of functionals) if (functional.node) functional.node.open = open;
  }

  function repaint() {
    for (const functional of functionals) {
      if (functional.body && functional.body.classList.contains("drawn")) {
        functional.body.classList.remove("drawn");
        draw(functional);
      }
    }
    if (pinned) show(pinned.functional, pinned.place);
  }

  /** Where an arrow key leads from a place, or null at the edge. */
  function neighbour(functional, place, key, far) {
    const { rows, columns, size } = shape(functional);
    const slice = Math.floor(place / size);
    const row = Math.floor((place % size) / columns.length);
    const column = place % columns.length;
    const [lastRow, lastColumn] = [rows.length - 1, columns.length - 1];
    const targets = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [far ? 0 : row, 0],
      End: [far ? lastRow : row, lastColumn],
    };
    if (!(key in targets)) return null;
    const [nextRow, nextColumn] = targets[key];
    if (nextRow < 0 || nextRow > lastRow || nextColumn < 0 || nextColumn > lastColumn) return null;
    return slice * size + nextRow * columns.length + nextColumn;
  }

  function onKey(event) {
    const at = located(event.target);
    if (!at || event.altKey || event.metaKey) return;
    if (!event.ctrlKey && (event.key === "n" || event.key === "p")) {
      event.preventDefault();
      step(event.key === "n" ? 1 : -1);
      return;
    }
    if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") event.preventDefault();
    const next = neighbour(at.functional, at.place, event.key, event.ctrlKey);
    if (next !== null) gridCell(at.functional, next).focus();
  }

  /** The anchor and the bins that the address names. */
  function address() {
    try {
      return decodeURIComponent(location.hash.slice(1)).split("@");
    } catch (error) {
      if (error instanceof URIError) return ["", ""];
      throw error;
    }
  }

  function visitAddress() {
    const [anchor, bins] = address();
    const table = tables.find((item) => item.anchor === anchor);
    if (table) {
      table.node.open = true;
      table.node.scrollIntoView();
    }
    const functional = functionals.find((item) => item.anchor === anchor);
    if (!functional) return;
    const places = [...functional.after.keys()];
    const place = bins ? places.find((number) => functional.bins(number).join(",") === bins) : functional.cells.keys().next().value;
    if (place !== undefined) visit(functional, place);
  }

  // ---- start ----

  function options(select, first, values) {
    byId(select).append(el("option", { value: "" }, first), ...values.map((value) => el("option", { value }, value)));
  }

  /** Config fields that a map can show by their values: numbers and yes or no. */
  function paintable() {
    const fields = tables.flatMap((table) => table.fields.filter((_, at) => table.configs.every((config) => typeof config[at] !== "string")));
    return [...new Set(fields)];
  }

  function start() {
    byId("changes").hidden = false;
    const flags = functionals.reduce((bits, functional) => bits | functional.flags, 0);
    options("arch", "all", [...new Set(tables.map((table) => table.arch))]);
    options("iface", "all", [...new Set(tables.map((table) => table.iface))]);
    options("flag", "any", data.flags.filter((_, number) => flags & (1 << number)).map(([name]) => name));
    options("paint", "whole configs", paintable());
    byId("tables").append(...tables.map((table, number) => tableNode(table, number === 0 || functionals.length <= ALL_OPEN)));
    byId("cell").append(el("p", { class: "quiet" }, "Point at a cell, or move to one with Tab and the arrow keys: its configs stand here."));

    for (const name of ["arch", "iface", "flag"]) byId(name).addEventListener("change", applyFilters);
    byId("paint").addEventListener("change", repaint);
    byId("next").addEventListener("click", () => step(1));
    byId("previous").addEventListener("click", () => step(-1));
    byId("open").addEventListener("click", () => setAllOpen(true));
    byId("close").addEventListener("click", () => setAllOpen(false));

    const maps = byId("tables");
    maps.addEventListener("keydown", onKey);
    maps.addEventListener("focusin", (event) => {
      const at = located(event.target);
      if (at) pin(at.functional, at.place);
    });
    maps.addEventListener("click", (event) => {
      const at = located(event.target);
      if (at) gridCell(at.functional, at.place).focus({ preventScroll: true });
    });
    maps.addEventListener("pointerover", (event) => {
      const at = located(event.target);
      if (at) show(at.functional, at.place);
      else if (pinned) show(pinned.functional, pinned.place);
    });
    addEventListener("hashchange", visitAddress);
    applyFilters();
    visitAddress();
    performance.mark("ready");
  }

  if (tables.length) start();
})();
