// Sets the chosen theme before the first paint: loaded in <head>, blocking, since the policy forbids inline script.
"use strict";
(() => {
  const KEY = "tilewatch-theme";
  const root = document.documentElement;

  function stored() {
    try {
      const value = localStorage.getItem(KEY);
      return value === "light" || value === "dark" ? value : "system";
    } catch {
      return "system"; // storage may be forbidden; the system's choice stands then
    }
  }

  function apply(theme) {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  apply(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(stored()));
  addEventListener("storage", (event) => { if (event.key === KEY) { apply(stored()); showChoice(); } });

  function showChoice() {
    const select = document.getElementById("theme");
    if (select) select.value = stored();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    if (!select) return;
    select.hidden = false;
    showChoice();
    select.addEventListener("change", () => {
      try {
        localStorage.setItem(KEY, select.value);
      } catch {
        // the choice then lasts for this page only
      }
      apply(select.value);
    });
  });
})();
