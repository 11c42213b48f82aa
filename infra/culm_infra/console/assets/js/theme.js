/* Sets the theme before the first paint: the one that was chosen before, else that of the system. */
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("culm-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    /* Storage is switched off: the system's theme. */
  }
})();
