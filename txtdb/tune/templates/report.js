"use strict";
// Everything is in the page without this: it joins rows and lines, and filters. Texts are set, never parsed.
(() => {
  const cells = [...document.querySelectorAll(".cell")];
  let lit = null;

  function dim() {
    if (!lit) return;
    lit.line?.remove();
    lit.row?.classList.remove("hot");
    lit.caption.textContent = lit.before;
    lit = null;
  }

  // A bright copy above all lines; the line itself may lie below others.
  function light(cell, entrant) {
    if (lit && lit.cell === cell && lit.entrant === entrant) return;
    dim();
    const row = cell.querySelector(`tr[data-e="${entrant}"]`);
    const path = cell.querySelector(`path[data-e="${entrant}"]`);
    const caption = cell.querySelector("figcaption");
    if (!row || !caption) return;
    const line = path?.cloneNode();
    line?.setAttribute("class", "hot");
    line?.removeAttribute("data-e");
    if (line) path.parentNode.append(line);
    row.classList.add("hot");
    lit = { cell, entrant, row, line, caption, before: caption.textContent };
    const names = [...row.closest("table").tHead.rows[0].cells].map((item) => item.textContent);
    caption.textContent = [...row.cells].map((item, at) => `${names[at]} ${item.textContent}`).slice(1).join(" · ");
  }

  // The line under the pointer, or one a few pixels from it.
  function near(svg, x, y) {
    for (const step of [0, -3, 3, -6, 6, -9, 9]) {
      const found = document.elementFromPoint(x, y + step);
      if (found?.dataset?.e !== undefined && found.ownerSVGElement === svg) return found.dataset.e;
    }
    return null;
  }

  for (const cell of cells) {
    const svg = cell.querySelector("svg.race");
    svg?.addEventListener("pointermove", (event) => {
      const entrant = near(svg, event.clientX, event.clientY);
      if (entrant === null) dim();
      else light(cell, entrant);
    });
    svg?.addEventListener("pointerleave", dim);
    const body = cell.querySelector(".runs tbody");
    if (!body?.rows.length) continue;
    const rowOf = (event) => event.target.closest("tr");
    body.addEventListener("pointerover", (event) => light(cell, rowOf(event).dataset.e));
    body.addEventListener("pointerleave", dim);
    body.addEventListener("focusin", (event) => light(cell, rowOf(event).dataset.e));
    body.addEventListener("focusout", dim);
    // One stop for Tab; arrows move inside.
    body.rows[0].tabIndex = 0;
    body.addEventListener("keydown", (event) => {
      const at = rowOf(event).sectionRowIndex, last = body.rows.length - 1;
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const next = body.rows[Math.min(Math.max(to, 0), last)];
      body.rows[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  const rows = [...document.querySelectorAll("#overview tbody tr")];
  const select = document.getElementById("outcome"), shown = document.getElementById("shown");
  const kinds = [...new Set(rows.map((row) => row.dataset.outcome))];
  for (const kind of kinds) select.add(new Option(kind, kind));
  document.getElementById("filter").hidden = kinds.length < 2;
  function filter() {
    const fits = (item) => !select.value || item.dataset.outcome === select.value;
    for (const item of [...rows, ...cells]) item.hidden = !fits(item);
    const count = rows.filter(fits).length;
    shown.textContent = `${count} of ${rows.length} cells`;
  }
  select.addEventListener("change", filter);
  filter();
})();
