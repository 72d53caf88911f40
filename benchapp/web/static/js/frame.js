// What every page shares: polling that costs nothing while nothing changes, live ages, copying, filters.
"use strict";
(() => {
  // A polled fragment carries the ETag it was drawn from; the server answers 304 while that still stands.
  document.addEventListener("htmx:configRequest", (event) => {
    const etag = event.detail.elt.dataset.etag;
    if (etag) event.detail.headers["If-None-Match"] = etag;
  });

  // A server that does not answer is said once, and taken back when it answers again.
  function reachable(yes) {
    const note = document.getElementById("unreachable");
    if (note) note.hidden = yes;
  }
  document.addEventListener("htmx:sendError", () => reachable(false));
  document.addEventListener("htmx:timeout", () => reachable(false));
  document.addEventListener("htmx:responseError", (event) => reachable(event.detail.xhr.status < 500));
  document.addEventListener("htmx:afterOnLoad", () => reachable(true));

  // The same words as benchapp.web.templatetags.units.age.
  function age(seconds) {
    if (seconds < -5) return "in the future";
    if (seconds < 10) return "just now";
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} d ago`;
  }
  function refreshAges() {
    for (const element of document.querySelectorAll("time[data-age]")) {
      const words = age((Date.now() - Date.parse(element.dateTime)) / 1000);
      if (element.textContent !== words) element.textContent = words;
    }
  }
  setInterval(refreshAges, 5000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source); // no clipboard outside a secure context
      button.textContent = "Selected";
    }
  });

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form.filters");
    if (form) form.requestSubmit();
  });
  // Only what differs from the default reaches the URL.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.filters")) return;
    for (const field of event.target.elements) {
      if (field.name && (field.value === "" || field.value === field.dataset.initial)) field.disabled = true;
    }
  });
  // Coming back, the form shows what the address says, not what was chosen last.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form.filters")) {
      for (const field of form.elements) field.disabled = false;
      form.reset();
    }
  });

  function followLogs() {
    for (const log of document.querySelectorAll(".log[data-follow]")) log.scrollTop = log.scrollHeight;
  }
  document.addEventListener("DOMContentLoaded", followLogs);
  document.addEventListener("htmx:afterSwap", followLogs);
})();
