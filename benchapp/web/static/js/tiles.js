// The matrix by keyboard, and evidence beside it. Without this file every cell is a plain link.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const matrix = document.getElementById("matrix");
  const split = document.getElementById("tiles-split");
  const evidence = document.getElementById("evidence");
  const announced = document.getElementById("evidence-announced"); // its heading: all of it read aloud is too much
  if (!matrix || !evidence) return;
  const wide = matchMedia("(min-width: 1001px)");
  const rows = [...matrix.tBodies].flatMap((body) => [...body.rows]).map((row) => [...row.querySelectorAll(".cell")]).filter((cells) => cells.length);
  const places = new Map();
  rows.forEach((cells, y) => cells.forEach((cell, x) => places.set(cell, [x, y])));

  // One cell is in the tab order; arrows move it.
  let current = rows[0][rows[0].length - 1];
  for (const cell of places.keys()) cell.tabIndex = -1;
  current.tabIndex = 0;
  function stand(cell) {
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
  }
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e6, 0], End: [1e6, 0], PageUp: [0, -4], PageDown: [0, 4] };
  matrix.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || !places.has(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const [x, y] = places.get(event.target);
    const cells = rows[Math.min(Math.max(y + step[1], 0), rows.length - 1)];
    stand(cells[Math.min(Math.max(x + step[0], 0), cells.length - 1)]);
    current.focus();
  });
  matrix.addEventListener("focusin", (event) => { if (places.has(event.target)) stand(event.target); });

  function keep(cell) {
    const url = new URL(matrix.dataset.withoutCell, location.href);
    if (cell) url.searchParams.set("cell", cell);
    history.replaceState(null, "", url);
  }
  function mark(href) {
    const cell = href && [...places.keys()].find((each) => each.getAttribute("href") === href);
    if (href && !cell) return; // a variant out of a cell that holds several
    matrix.querySelectorAll("[aria-current]").forEach((each) => each.removeAttribute("aria-current"));
    if (cell) { cell.setAttribute("aria-current", "true"); stand(cell); }
  }
  const asCell = (href) => href.split("?")[0].split("/").slice(-3, -1).map(decodeURIComponent).join("@");
  function close() {
    split.dataset.closed = "";
    evidence.replaceChildren();
    mark(null);
    keep("none");
    current.focus();
  }

  document.addEventListener("click", async (event) => {
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!plain) return;
    if (event.target.closest("[data-close]")) { event.preventDefault(); close(); return; }
    const link = event.target.closest("#matrix a.cell, #evidence a[data-evidence]");
    if (!link || !wide.matches) return;
    event.preventDefault();
    const href = link.getAttribute("href");
    await htmx.ajax("GET", href, { target: "#evidence", swap: "innerHTML" });
    delete split.dataset.closed;
    announced.textContent = [...evidence.querySelectorAll("header > h2, header > .dim")].map((each) => each.textContent).join(" in ");
    mark(href);
    keep(asCell(href));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !("closed" in split.dataset)) close();
  });
  mark(evidence.dataset.href);
});
