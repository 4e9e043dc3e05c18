// What pages do besides showing: rows that match a word, bytes and names that light up together, numbers that move.
// Every page is whole without it.
"use strict";

for (const input of document.querySelectorAll("input[data-filter]")) {
  const rows = document.querySelectorAll(`#${input.dataset.filter} tbody tr`);
  input.addEventListener("input", () => {
    const word = input.value.toLowerCase();
    for (const row of rows) {
      const name = row.querySelector("th");
      row.hidden = name !== null && !name.textContent.toLowerCase().includes(word);
    }
  });
}

const light = (event, isLit) => {
  const named = event.target.closest("[data-field]");
  if (named === null) return;
  for (const each of document.querySelectorAll(`[data-field="${CSS.escape(named.dataset.field)}"]`)) {
    each.classList.toggle("lit", isLit);
  }
};
for (const view of document.querySelectorAll(".bytes")) {
  for (const type of ["mouseover", "focusin"]) view.addEventListener(type, (event) => light(event, true));
  for (const type of ["mouseout", "focusout"]) view.addEventListener(type, (event) => light(event, false));
}

const KEPT = 120; // points of a curve
const EVERY_MS = 5000;

const shown = (value, unit) => {
  if (!Number.isFinite(value)) return "…";
  if (!unit.startsWith("B")) return `${value.toPrecision(3)} ${unit}`;
  const steps = ["", "Ki", "Mi", "Gi", "Ti"];
  let step = 0;
  while (Math.abs(value) >= 1024 && step < steps.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${value.toFixed(step ? 1 : 0)} ${steps[step]}${unit}`;
};

const valueOf = (gauge, before, now) => {
  const {sample, per} = gauge.dataset;
  if (!per) return now.samples[sample];
  if (before === null) return NaN;
  const grown = (name) => now.samples[name] - before.samples[name];
  const divisor = per === "second" ? now.at - before.at : grown(per);
  return divisor > 0 ? grown(sample) / divisor : NaN;
};

const gauges = document.querySelector("[data-rates]");
if (gauges !== null) {
  let before = null;
  const curves = new Map();
  const draw = (gauge, value) => {
    gauge.querySelector("output").textContent = shown(value, gauge.dataset.unit);
    if (!Number.isFinite(value)) return;
    const points = [...(curves.get(gauge) ?? []), value].slice(-KEPT);
    curves.set(gauge, points);
    const most = Math.max(...points, Number.MIN_VALUE);
    const place = (point, at) => `${(120 * at) / (KEPT - 1)},${29 - (28 * point) / most}`;
    gauge.querySelector("polyline").setAttribute("points", points.map(place).join(" "));
  };
  const ask = async () => {
    if (document.hidden) return; // nobody looks: the broker need not tell
    try {
      const answer = await fetch(gauges.dataset.rates);
      if (!answer.ok) return;
      const now = await answer.json();
      if (before !== null && now.at === before.at) return;
      for (const gauge of gauges.querySelectorAll("[data-sample]")) draw(gauge, valueOf(gauge, before, now));
      before = now;
    } catch {
      // it is asked again
    }
  };
  ask();
  setInterval(ask, EVERY_MS);
}
