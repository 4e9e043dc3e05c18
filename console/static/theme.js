// Light or dark, before anything is drawn: as the reader has chosen, or as their system is.
"use strict";

try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // nothing is kept in this browser
}
