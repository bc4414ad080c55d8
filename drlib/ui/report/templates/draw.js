"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
// colours of drlib's figures on a dark page; those of lines and bars are the same on both
const DARK = {
  "white": "#161b22", "#1f2933": "#e6edf3", "#52606d": "#aab7c4", "#e3e8ee": "#30363d", "#d5dce4": "#45505c",
  "rgba(255,255,255,0.88)": "rgba(22,27,34,0.88)", "#0072B2": "#4aa3df",
};
const KEPT = ["textfont", "insidetextfont"]; // text on a coloured bar

function dark(value, key) {
  if (typeof value === "string") return DARK[value] ?? value.replace(/color:(#[0-9A-Fa-f]{6})/g, (all, c) => `color:${DARK[c] ?? c}`);
  if (value === null || typeof value !== "object" || KEPT.includes(key)) return value;
  if (Array.isArray(value)) return value.map(each => dark(each, key));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, dark(each, name)]));
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
}

function draw(darkly, width) {
  for (const [id, figure] of Object.entries(figures)) {
    const { data, layout } = structuredClone(darkly ? dark(figure) : figure);
    layout.autosize = width === undefined;
    if (width === undefined) delete layout.width; else layout.width = width;
    Plotly.react(document.getElementById(id), data, layout, { displaylogo: false, displayModeBar: false, responsive: true });
  }
  button.textContent = darkly ? "Light" : "Dark";
  button.setAttribute("aria-label", darkly ? "Show in light colours" : "Show in dark colours");
}

const asked = new URLSearchParams(location.search).get("theme");
if (asked === "dark" || asked === "light") root.dataset.theme = asked;
draw(isDark());
button.hidden = false;
button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; draw(isDark()); });
system.addEventListener("change", () => draw(isDark()));
// paper is light, nothing on it can be opened, and figures are as wide as the style sheet says
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details.long")) each.open = true;
  draw(false, 920);
});
addEventListener("afterprint", () => draw(isDark()));
