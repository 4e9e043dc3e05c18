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

document.querySelector("[data-focus]")?.focus();

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

const theme = document.querySelector("#theme");
if (theme !== null) {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // it lasts as long as the page
    }
    tell();
  });
  theme.hidden = false;
  tell();
}

const MOST_ROWS = 500;
const follow = document.querySelector("#follow");
if (follow !== null) {
  const rows = document.querySelector("#messages");
  const told = document.querySelector("#following");
  let stream = null;
  let count = 0;
  const stop = (why) => {
    stream?.close();
    stream = null;
    follow.setAttribute("aria-pressed", "false");
    follow.textContent = "Follow";
    told.textContent = why;
  };
  const add = (event) => {
    rows.querySelector(".none")?.remove();
    rows.insertAdjacentHTML("afterbegin", JSON.parse(event.data)); // the server has escaped all that strangers wrote
    while (rows.children.length > MOST_ROWS) rows.lastElementChild.remove();
    count += 1;
    told.textContent = `${count} new, the newest first`;
  };
  follow.addEventListener("click", () => {
    if (stream !== null) {
      stop("");
      return;
    }
    stream = new EventSource(follow.dataset.follow);
    count = 0;
    follow.setAttribute("aria-pressed", "true");
    follow.textContent = "Stop";
    told.textContent = "Waits for records…";
    stream.addEventListener("message", add);
    stream.addEventListener("problem", (event) => stop(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      if (stream?.readyState === EventSource.CLOSED) stop("The console does not answer");
    });
  });
  follow.hidden = false;
}

const KEPT = 120; // points of a curve
const EVERY_MS = 5000;
const SOON_MS = 2200;

const shown = (value, unit) => {
  if (!Number.isFinite(value)) return "…";
  if (unit === "s") return value < 1 ? `${(value * 1000).toPrecision(3)} ms` : `${value.toPrecision(3)} s`;
  if (!unit.startsWith("B")) {
    const number = value >= 1000 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
    return `${number} ${unit}`;
  }
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
    const most = Math.max(...points);
    const first = KEPT - points.length; // the newest is at the right
    const line = points.map((point, at) => `${((240 * (first + at)) / (KEPT - 1)).toFixed(1)},${(58 - (54 * point) / (most || 1)).toFixed(1)}`);
    gauge.querySelector("polyline").setAttribute("points", line.join(" "));
    gauge.querySelector("polygon").setAttribute("points", [`${(240 * first) / (KEPT - 1)},60`, ...line, "240,60"].join(" "));
    gauge.querySelector(".most").textContent = `up to ${shown(most, gauge.dataset.unit)} in ${Math.ceil((points.length * EVERY_MS) / 60000)} min`;
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
  setTimeout(ask, SOON_MS); // rates need two looks
  setInterval(ask, EVERY_MS);
}
