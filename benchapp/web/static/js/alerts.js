// Triage by keyboard: moves through the inbox, ticks, and submits the forms that stand on the page anyway.
// On the page of one alert a key presses the button, or opens and focuses the field, that names it:
//   data-key="a"          a button to press, or a field to type into
//   data-close="fixed"    on the field of the reason: the key is of KEYS, and chooses this state first
"use strict";
(() => {
  const PLACE = "tilewatch-alert-row";
  const CLOSING = { f: "fixed", w: "wont_fix", m: "machine" };
  const rows = () => [...document.querySelectorAll(".inbox .alert")];
  const current = () => document.querySelector(".inbox .alert[aria-current]");

  function go(row) {
    current()?.removeAttribute("aria-current");
    row.setAttribute("aria-current", "true");
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  }

  function move(by) {
    const all = rows();
    const at = all.indexOf(current());
    const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
    if (next) go(next);
  }

  function tell() {
    const ticked = document.querySelectorAll(".tick:checked").length;
    const words = document.getElementById("ticked");
    if (words) words.textContent = ticked ? `With the ${ticked} ticked:` : "With those ticked:";
  }

  function tick(row, on) {
    const box = row?.querySelector(".tick");
    if (!box) return;
    box.checked = on ?? !box.checked;
    tell();
  }

  // What a key is done to: all that are ticked, else the one that the reader is at.
  function chosen() {
    if (!document.querySelector(".tick:checked")) tick(current() ?? rows()[0], true);
  }

  function remember() {
    try {
      sessionStorage.setItem(PLACE, String(Math.max(0, rows().indexOf(current()))));
    } catch {
      // storage may be forbidden; the reader then begins at the top again
    }
  }

  function inInbox(key, bulk) {
    if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "e" || key === "n") {
      const row = current() ?? rows()[0];
      if (row) location.assign(row.dataset.href + (key === "n" ? "#note" : ""));
    } else if (!bulk) return false;
    else if (key === "x") tick(current());
    else if (key === "a" || key === "i") {
      chosen();
      bulk.elements.act.value = key === "a" ? "acknowledge" : "investigate";
      bulk.requestSubmit();
    } else if (CLOSING[key]) {
      chosen();
      bulk.elements.act.value = CLOSING[key];
      bulk.elements.reason.focus();
    } else return false;
    return true;
  }

  function onPage(key) {
    if (CLOSING[key]) {
      const form = document.getElementById("close");
      if (!form) return false;
      form.elements.state.value = CLOSING[key];
      reveal(form.elements.reason);
      return true;
    }
    if (key === "j" || key === "k") {
      scrollBy({ top: key === "j" ? 120 : -120 });
      return true;
    }
    const named = document.querySelector(`[data-key="${key}"]`);
    if (!named) return false;
    if (named.matches("button")) named.click();
    else reveal(named);
    return true;
  }

  function reveal(field) {
    const details = field.closest("details");
    if (details) details.open = true;
    field.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest?.("#bulk")) {
      (current() ?? document.body).focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
    let done = true;
    if (event.key === "?") {
      const keys = document.getElementById("keys");
      if (keys) keys.open = !keys.open;
    } else if (!/^[a-z]$/.test(event.key)) done = false;
    else if (document.querySelector(".inbox")) done = inInbox(event.key, document.getElementById("bulk"));
    else done = onPage(event.key);
    if (done) event.preventDefault();
  });
  document.addEventListener("change", (event) => { if (event.target.matches(".tick")) tell(); });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest(".inbox .alert");
    if (row && row !== current()) {
      current()?.removeAttribute("aria-current");
      row.setAttribute("aria-current", "true");
    }
  });
  document.addEventListener("submit", (event) => { if (event.target.id === "bulk") remember(); });
  document.addEventListener("DOMContentLoaded", () => {
    tell();
    if (location.hash === "#note") {
      const field = document.querySelector("[data-key=n]");
      if (field) reveal(field);
    }
    let place = null;
    try {
      place = sessionStorage.getItem(PLACE);
      sessionStorage.removeItem(PLACE);
    } catch {
      return;
    }
    const all = rows();
    if (place !== null && all.length) go(all[Math.min(Number(place) || 0, all.length - 1)]);
  });
})();
