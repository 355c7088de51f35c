// report.js - draws the charts of a run's page for another axis, and reads out their values.
// SPDX-License-Identifier: Apache-2.0
//
// The page is complete without it. Values are read with the pointer, or with the keyboard: Tab goes
// to a chart, arrows, PageUp, PageDown, Home and End move in it, Escape leaves. The data and the
// geometry of the pictures come from the element #chart-data; chart.cc draws by the same formulas.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const frame = data.frame;
  const view = { axis: "step", isLog: false };
  const tip = document.getElementById("tip");
  const units = { step: "update", tokens: "target tokens", time: "seconds" };
  const axisNames = { step: "updates", tokens: "tokens", time: "seconds" };

  const isNumber = v => typeof v === "number";
  const make = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  function show(v) {
    if (!isNumber(v)) return "not a number";
    if (Number.isInteger(v) && Math.abs(v) < 1e15) return v.toLocaleString("en");
    if (v !== 0 && (Math.abs(v) >= 1e6 || Math.abs(v) < 1e-3)) return v.toExponential(2);
    return String(+v.toPrecision(4));
  }

  function tickText(v) {
    const size = Math.abs(v);
    if (size >= 1e6) return +(v / 1e6).toPrecision(4) + " M";
    if (size >= 1e4) return +(v / 1e3).toPrecision(4) + " k";
    if (size > 0 && size < 1e-3) return v.toExponential(0);
    return String(+v.toPrecision(5));
  }

  // About `count` round numbers between the two.
  function ticks(low, high, count) {
    if (!(high > low)) return [low];
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => raw <= s * 1.0001) ?? 10 * power;
    const found = [];
    const first = Math.ceil(low / step - 1e-9);
    // Next to a huge number a step may change nothing.
    for (let i = 0; i < 50; ++i) {
      const t = (first + i) * step;
      if (!(t <= high + 1e-9 * step)) break;
      found.push(Math.abs(t) < step * 1e-9 ? 0 : t);
    }
    return found;
  }

  function logTicks(low, high) {
    const found = [];
    for (let power = Math.floor(low); power <= high; ++power) {
      for (const m of [1, 2, 3, 5]) found.push(m * 10 ** power);
    }
    return found.filter(v => Math.log10(v) > low && Math.log10(v) < high);
  }

  // Where the values of a chart lie in its picture.
  function scaleOf(chart, axis) {
    let x0 = Infinity, x1 = -Infinity;
    for (const series of chart.series) {
      for (const x of series[axis]) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
    }
    const isLog = view.isLog && chart.canLog;
    // The first part of a steep curve may leave the picture.
    const calm = isLog ? x0 : x0 + chart.calm * (x1 - x0);
    let y0 = Infinity, y1 = -Infinity;
    const values = chart.limits.map(limit => [limit.y, x1]);
    for (const series of chart.series) series.y.forEach((y, i) => values.push([y, series[axis][i]]));
    for (const [y, x] of values) {
      if (!isNumber(y) || (isLog && !(y > 0))) continue;
      y0 = Math.min(y0, y);
      if (x >= calm) y1 = Math.max(y1, y);
    }
    const place = isLog ? Math.log10 : v => v;
    y0 = place(y0);
    y1 = place(y1);
    if (!(y1 >= y0)) y1 = y0;
    const margin = (y1 - y0) * 0.06 || Math.abs(y1) * 0.05 || 1;
    y0 = chart.zero && !isLog ? 0 : y0 - margin;
    y1 += margin;
    const inner = { width: frame.width - frame.left - frame.right, height: frame.height - frame.top - frame.bottom };
    return {
      x0, x1, y0, y1, isLog,
      x: v => frame.left + (v - x0) / ((x1 - x0) || 1) * inner.width,
      y: v => frame.height - frame.bottom - (place(Math.max(v, isLog ? 1e-300 : v)) - y0) / ((y1 - y0) || 1) * inner.height,
      back: p => x0 + (p - frame.left) / inner.width * (x1 - x0),
    };
  }

  function drawSeries(add, chart, series, scale, axis) {
    let path = "", isDown = false;
    series.y.forEach((y, i) => {
      const x = scale.x(series[axis][i]);
      if (!isNumber(y)) {
        isDown = false;
        add("path", { class: "broken", d: `M${x - 4} ${frame.top + 1}h8l-4 7z` });
        return;
      }
      path += `${isDown ? "L" : "M"}${x.toFixed(1)} ${scale.y(y).toFixed(1)}`;
      isDown = true;
    });
    add("path", { class: "line " + series.look, d: path, "clip-path": "url(#plot-area)" });
    if (!series.dots) return;
    series.y.forEach((y, i) => {
      if (!isNumber(y) || scale.y(y) < frame.top) return;
      add("circle", { class: "dot " + series.look, cx: scale.x(series[axis][i]), cy: scale.y(y), r: 3.4 });
    });
  }

  function draw(chart) {
    const axis = chart.axis = view.axis;
    const svg = chart.plot.querySelector("svg");
    const scale = chart.scale = scaleOf(chart, axis);
    const add = (...what) => svg.appendChild(make(...what));
    const right = frame.width - frame.right, bottom = frame.height - frame.bottom;
    svg.replaceChildren();
    for (const t of scale.isLog ? logTicks(scale.y0, scale.y1) : ticks(scale.y0, scale.y1, 4)) {
      add("path", { class: "grid", d: `M${frame.left} ${scale.y(t)}H${right}` });
      add("text", { class: "tick", x: frame.left - 6, y: scale.y(t) + 4, "text-anchor": "end" }, tickText(t));
    }
    for (const t of ticks(scale.x0, scale.x1, 5)) {
      if (scale.x(t) > frame.width - 74) continue;
      add("text", { class: "tick", x: scale.x(t), y: frame.height - 8, "text-anchor": "middle" }, tickText(t));
    }
    add("text", { class: "tick", x: right, y: frame.height - 8, "text-anchor": "end" }, axisNames[axis]);
    for (const mark of chart.marks) {
      const x = scale.x(mark[axis]), isLeft = x < frame.width / 2;
      add("path", { class: "mark", d: `M${x} ${frame.top}V${bottom}` });
      add("text", { class: "mark-text", x: x + (isLeft ? 5 : -5), y: frame.top + 11, "text-anchor": isLeft ? "start" : "end" }, mark.text);
    }
    for (const limit of chart.limits) {
      add("path", { class: "limit", d: `M${frame.left} ${scale.y(limit.y)}H${right}` });
      add("text", { class: "mark-text", x: right - 4, y: scale.y(limit.y) - 5, "text-anchor": "end" }, limit.text);
    }
    for (const series of chart.series) drawSeries(add, chart, series, scale, axis);
  }

  const nearest = (places, value) => {
    let best = 0;
    for (let i = 1; i < places.length; ++i) {
      if (Math.abs(places[i] - value) < Math.abs(places[best] - value)) best = i;
    }
    return best;
  };
  const longest = chart => chart.series.reduce((a, b) => (b[chart.axis].length > a[chart.axis].length ? b : a));

  // Shows the values at place `at` of the chart's longest series.
  function read(chart, at) {
    const places = longest(chart)[chart.axis];
    chart.at = Math.max(0, Math.min(places.length - 1, at));
    const value = places[chart.at];
    const lines = [`${units[chart.axis]} ${show(value)}`];
    for (const series of chart.series) {
      const k = nearest(series[chart.axis], value);
      const isNear = Math.abs(series[chart.axis][k] - value) <= (chart.scale.x1 - chart.scale.x0) / 20;
      if (isNear) lines.push(`${series.name}: ${show(series.y[k])}${chart.unit}`);
    }
    const svg = chart.plot.querySelector("svg");
    const x = chart.scale.x(value);
    svg.querySelector(".cross")?.remove();
    svg.appendChild(make("path", { class: "cross", d: `M${x} ${frame.top}V${frame.height - frame.bottom}` }));
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const box = svg.getBoundingClientRect();
    const left = box.left + x / frame.width * box.width;
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(4, left + 12 + width > innerWidth ? left - width - 12 : left + 12)}px`;
    tip.style.top = `${Math.max(4, Math.min(innerHeight - tip.offsetHeight - 4, box.top + 16))}px`;
  }

  function leave(chart) {
    tip.hidden = true;
    chart.plot.querySelector(".cross")?.remove();
  }

  function onKey(chart, event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
    if (event.key === "Escape") return leave(chart);
    if (event.key === "Home") read(chart, 0);
    else if (event.key === "End") read(chart, Infinity);
    else if (event.key in moves) read(chart, chart.at + moves[event.key]);
    else return undefined;
    return event.preventDefault();
  }

  for (const plot of document.querySelectorAll(".plot[data-chart]")) {
    const chart = data.charts[plot.dataset.chart];
    Object.assign(chart, { plot, at: -1 });
    draw(chart);
    plot.addEventListener("pointermove", event => {
      const box = plot.querySelector("svg").getBoundingClientRect();
      const value = chart.scale.back((event.clientX - box.left) / box.width * frame.width);
      read(chart, nearest(longest(chart)[chart.axis], value));
    });
    plot.addEventListener("pointerleave", () => leave(chart));
    plot.addEventListener("blur", () => leave(chart));
    plot.addEventListener("keydown", event => onKey(chart, event));
  }

  const tools = document.querySelector("form.tools");
  if (tools) {
    tools.hidden = false;
    tools.addEventListener("submit", event => event.preventDefault());
    tools.addEventListener("change", () => {
      view.axis = tools.elements.axis.value;
      view.isLog = tools.elements.log.checked;
      document.body.classList.toggle("no-raw", !tools.elements.raw.checked);
      for (const chart of Object.values(data.charts)) if (chart.plot) draw(chart);
    });
  }

  // Tables with buttons in their heads are sorted by them.
  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const column = [...head.parentElement.children].indexOf(head);
      const body = head.closest("table").tBodies[0];
      const isDown = head.getAttribute("aria-sort") === "ascending";
      const keyOf = row => row.children[column].dataset.sort ?? row.children[column].textContent;
      const compare = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(String(b)) : a - b);
      const rows = [...body.rows].sort((a, b) => compare(keyOf(a), keyOf(b)) * (isDown ? -1 : 1));
      for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      body.append(...rows);
    });
  }
})();
