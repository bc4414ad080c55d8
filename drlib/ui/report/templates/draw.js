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

// An animated figure: a button and a slider that work by keyboard, in the place of plotly's, which do not. Where less motion is
// wanted nothing moves by itself, and the button steps to the next event.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const STILL = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: true } };

class Replay {
  constructor(place, figure) {
    const { replay, speed } = figure.layout.meta;
    Object.assign(this, { place, moments: replay, speed, timer: null });
    this.frames = figure.frames.map(frame => frame.name);
    const bar = document.createElement("div");
    bar.className = "replay";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Replay");
    this.button = document.createElement("button");
    this.button.type = "button";
    this.slider = document.createElement("input");
    Object.assign(this.slider, { type: "range", min: 0, max: this.frames.length - 1, step: 1, value: this.frames.length - 1 });
    this.slider.setAttribute("aria-label", "Moment of the incident");
    this.said = document.createElement("p");
    bar.append(this.button, this.slider, this.said);
    place.closest("figure").before(bar);
    this.button.addEventListener("click", () => this.pressed());
    this.slider.addEventListener("input", () => { this.stop(); this.show(Number(this.slider.value)); });
    calm.addEventListener("change", () => this.stop());
    this.stop();
    this.tell(this.frames.length - 1);
  }
  get last() { return this.frames.length - 1; }
  get at() { return Number(this.slider.value); }
  pressed() {
    if (this.timer !== null) return this.stop();
    const next = this.at === this.last ? 0 : this.at + 1;
    this.said.setAttribute("aria-live", calm.matches ? "polite" : "off");
    this.show(next);
    if (calm.matches) return;
    this.button.textContent = "Stop";
    this.wait(next);
  }
  wait(at) {
    if (at === this.last) return this.stop();
    const apart = (this.moments[at + 1].after_s - this.moments[at].after_s) * 1000 / this.speed;
    this.timer = setTimeout(() => { this.show(at + 1); this.wait(at + 1); }, Math.min(Math.max(apart, 150), 2000));
  }
  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.button.textContent = calm.matches ? "Next event" : "Play";
  }
  tell(at) {
    this.slider.value = at;
    this.said.textContent = `after ${this.moments[at].after_s.toFixed(1)} s: ${this.moments[at].text}`;
    this.slider.setAttribute("aria-valuetext", this.said.textContent);
  }
  show(at) {
    this.tell(at);
    return Plotly.animate(this.place, [this.frames[at]], STILL);
  }
}
const replays = new Map();

function isAnimated(layout, frames) {
  const moments = layout?.meta?.replay;
  return Array.isArray(frames) && frames.length > 0 && Array.isArray(moments) && moments.length === frames.length
    && moments.every(each => typeof each?.after_s === "number") && [layout.height, layout.margin?.b, layout.meta.controls,
      layout.meta.speed].every(each => typeof each === "number");
}

function draw(darkly, width) {
  for (const [id, figure] of Object.entries(figures)) {
    const place = document.getElementById(id);
    const { data, layout, frames } = structuredClone(darkly ? dark(figure) : figure);
    const animated = isAnimated(layout, frames);
    if (animated) {
      layout.height -= layout.meta.controls;
      layout.margin.b -= layout.meta.controls;
      delete layout.updatemenus;
      delete layout.sliders;
      if (!replays.has(id)) replays.set(id, new Replay(place, figure));
    }
    layout.autosize = width === undefined;
    if (width === undefined) delete layout.width; else layout.width = width;
    const config = { displaylogo: false, displayModeBar: false, responsive: true };
    if (!animated) {
      Plotly.react(place, data, layout, config);
    } else {
      const drawn = Plotly.react(place, { data, layout, frames, config });
      replays.get(id).stop();
      drawn.then(() => replays.get(id).show(width === undefined ? replays.get(id).at : frames.length - 1));
    }
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
