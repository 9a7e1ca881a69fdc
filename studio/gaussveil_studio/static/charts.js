// Charts: what the server describes, drawn as SVG in the page's own colours. The numbers come from the server.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const BELOW = 1e-13; // zero has no place on a log axis: it rests below what is shown
  const LOWEST = 1e-10, THIN = "\u202f"; // between thousands: the same in every country
  const SIZES = [[1e12, "trillions"], [1e9, "billions"], [1e6, "millions"]]; // an axis of 150 000 000 says 150, in millions
  const MOST_SIGNS = 16, NARROWEST = 11, ROW = 30, MOST_ROWS = 1000;
  const drawn = new Map();

  function make(name, known = {}, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(known)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  // As the reader writes numbers: with a point or a comma.
  const spoken = (text) => (document.documentElement.dataset.decimal === "comma" ? text.replace(/(\d)\.(\d)/g, "$1,$2") : text);

  function number(value, digits = 4) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e15) return spoken(value.toExponential(digits - 1).replace("e+", "e").replace(/\.?0+e/, "e"));
    const words = spoken(String(Number(value.toPrecision(digits))));
    return size < 1e4 ? words : words.replace(/\B(?=(\d{3})+$)/g, THIN);
  }

  const bandOf = (known, order) => (known.bands || []).find((one) => one.of === order && one.low.length);

  // One number: in the server's words, which are rounded to what the noise leaves, where it sent some.
  function told(known, series, order, index) {
    return known.told ? spoken(known.told[order][index]) : `${number(series[order][1][index])}${reach(known, order, index)}`;
  }

  function reach(known, order, index) {
    const band = bandOf(known, order);
    return band && band.low[index] !== null ? ` (${number(band.low[index])} to ${number(band.high[index])})` : "";
  }

  // Ticks at 1, 2, 2.5 or 5 times a power of ten; on a log axis at powers of ten.
  function ticks(low, high, most, log) {
    if (log) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first + 1) / most));
      const found = [];
      for (let power = first; power <= last; power += step) found.push(10 ** power);
      return found.length > 1 ? found : [low, high];
    }
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  // In what an axis counts: its ticks are divided by it, and its name says so.
  const sizeOf = (found, log) => (log ? undefined : SIZES.find(([size]) => Math.max(...found.map(Math.abs)) >= size)) || [1, ""];
  const named = (name, size) => [name, size && `in ${size}`].filter(Boolean).join(", ");

  function scale(low, high, from, to, log) {
    const place = log ? Math.log : (v) => v;
    const a = place(low), b = place(high);
    return (value) => from + ((place(log ? Math.max(value, BELOW) : value) - a) / (b - a || 1)) * (to - from);
  }

  const entries = (series) => (Array.isArray(series) ? series : Object.entries(series)); // pairs keep the order they were sent in
  const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));

  function range(known) {
    const all = [...entries(known.series).flatMap(([, values]) => finite(values)), ...(known.bands || []).flatMap((one) => [...finite(one.low), ...finite(one.high)])];
    if (known.line_at !== undefined && known.line_at !== null) all.push(known.line_at);
    if (known.mark) all.push(known.mark[1]);
    let low = Math.min(...all), high = Math.max(...all);
    if (!all.length) return [0, 1];
    if (known.log_y) {
      const rising = finite(all).filter((v) => v > 0);
      low = Math.max(Math.min(...rising, 1), LOWEST);
      return [10 ** Math.floor(Math.log10(low) + 1e-9), 10 ** Math.ceil(Math.log10(Math.max(high, low)) - 1e-9)];
    }
    if (known.kind === "bar" || known.kind === "step" || (low > 0 && low < 0.4 * high)) low = Math.min(low, 0);
    if (low === high) { low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
    const room = (high - low) * 0.04;
    return [low === 0 ? 0 : low - room, high + room];
  }

  // One picture: lines, steps, bars or points over numbers, times or names, each with its band where it has one.
  function picture(element, known) {
    const series = entries(known.series);
    if (known.kind === "rows") { rowsOf(element, known, series); return; }
    const width = Math.max(element.clientWidth, 200), height = Math.max(element.clientHeight, 120);
    const moments = known.times ? known.x.map((v) => Date.parse(v)) : null; // a clock runs evenly, whatever happens on it
    const numeric = known.kind !== "bar" && (moments !== null || known.x.every((v) => typeof v === "number"));
    const along = moments || known.x;
    const labels = known.x.map((v) => String(v).slice(0, 19).replace("T", " "));
    const [low, high] = known.y_range || range(known);
    const yTicks = ticks(low, high, Math.max(4, Math.floor(height / 55)), known.log_y);
    const [ySize, yIn] = sizeOf(yTicks, known.log_y);
    const left = 14 + 7.2 * Math.max(...yTicks.map((v) => number(v / ySize).length)), right = width - 14, top = 26;
    const longest = Math.min(MOST_SIGNS, Math.max(1, ...labels.map((words) => words.length)));
    const each = (right - left) / known.x.length;
    const turned = !numeric && longest > 2 && each < 7 * longest + 5 && each >= NARROWEST; // too wide to stand beside each other: every one is turned; of hours some are left out
    const bottom = height - (turned ? 30 + 6.2 * longest : 42);
    const y = scale(low, high, bottom, top, known.log_y);
    const [first, last] = known.x_range || [Math.min(...(numeric ? along : [0])), Math.max(...(numeric ? along : [1]), moments ? Date.now() : -Infinity)];
    const slot = each;
    const across = scale(first, last, left + (known.kind === "points" ? 16 : 0), right - (known.kind === "points" ? 16 : 0), known.log_x);
    const x = numeric ? (index) => across(along[index]) : (index) => left + slot * (index + 0.5);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" });
    for (const value of yTicks) {
      svg.append(make("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
      svg.append(make("text", { class: "tick", x: left - 7, y: y(value) + 4, "text-anchor": "end" }, number(value / ySize)));
    }
    let xIn = "";
    if (moments) {
      const count = Math.max(2, Math.floor((right - left) / 130)), day = last - first > 2 * 864e5;
      for (let k = 0; k < count; k += 1) {
        const words = new Date(first + ((last - first) * k) / (count - 1)).toISOString().slice(0, 16).replace("T", " ");
        svg.append(make("text", { class: "tick", x: left + ((right - left) * k) / (count - 1), y: bottom + 17, "text-anchor": k === 0 ? "start" : k === count - 1 ? "end" : "middle" }, day ? words.slice(0, 10) : words));
      }
    } else if (numeric) {
      const found = ticks(first, last, Math.max(2, Math.floor((right - left) / 70)), known.log_x), [size, words] = sizeOf(found, known.log_x);
      for (const value of found) svg.append(make("text", { class: "tick", x: across(value), y: bottom + 17, "text-anchor": "middle" }, number(value / size)));
      xIn = words;
    } else {
      let free = -Infinity; // where the last of them ended: those at the edges are moved inwards
      const fits = Math.max(1, Math.ceil((turned ? 12 : 7 * longest + 5) / slot)); // turned words need a line's height each
      labels.forEach((words, index) => {
        if (index % fits !== 0) return;
        const half = Math.min(3.6 * Math.min(words.length, MOST_SIGNS), (right - left) / 2), short = words.length > MOST_SIGNS ? `${words.slice(0, MOST_SIGNS - 1)}…` : words;
        if (turned && x(index) < 3.6 * Math.min(words.length, MOST_SIGNS)) return; // it would begin left of the picture
        const middle = Math.max(half + 2, Math.min(width - half - 2, x(index)));
        if (!turned && middle - half < free) return;
        free = middle + half + 4;
        const place = turned ? { x: x(index) + 4, y: bottom + 10, "text-anchor": "end", transform: `rotate(-60 ${x(index) + 4} ${bottom + 10})` } : { x: middle, y: bottom + 17, "text-anchor": "middle" };
        svg.append(make("text", { class: "tick", ...place }, short));
      });
    }
    svg.append(make("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(make("text", { class: "name", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, named(known.x_name, xIn)));
    svg.append(make("text", { class: "name", x: 2, y: 13 }, named(known.y_name, yIn)));
    const inside = make("g");
    const clip = `clip-${(drawn.get(element) || { number: drawn.size }).number}`;
    svg.append(make("clipPath", { id: clip }, make("rect", { x: left - 1, y: top - 8, width: right - left + 2, height: bottom - top + 9 })), inside);
    inside.setAttribute("clip-path", `url(#${clip})`);
    const there = known.x.map((_, index) => index);
    const path = (values, order) => {
      let open = false;
      return order.map((index) => {
        const value = values[index];
        if (value === null || !Number.isFinite(value)) { open = false; return ""; }
        const stepped = open && known.kind === "step" ? `H${x(index).toFixed(1)}` : "";
        const sign = open ? "L" : "M";
        open = true;
        return `${stepped}${sign}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      }).join("");
    };
    const few = known.kind === "points" || (known.kind !== "bar" && known.x.length === 1);
    for (const band of known.bands || []) {
      const tint = `c${band.of % 6}`;
      if (few || known.kind === "bar") {
        const shift = known.kind === "bar" ? ((band.of + 0.5) / series.length - 0.5) * slot * 0.8 : 0;
        for (const index of there) {
          if (band.low[index] === null || band.high[index] === null) continue;
          const at = (x(index) + shift).toFixed(1), ends = [y(band.low[index]), y(band.high[index])].map((v) => v.toFixed(1));
          inside.append(make("path", { class: `whisker ${known.kind === "bar" ? "ink" : tint}`, d: `M${at} ${ends[0]}V${ends[1]}m-5 0h10M${at} ${ends[0]}m-5 0h10` }));
        }
      } else {
        inside.append(make("path", { class: `band ${tint}`, d: `${path(band.high, there)}${path(band.low, [...there].reverse()).replace(/^M/, "L")}Z` }));
      }
    }
    series.forEach(([name, values], order) => {
      const tint = `c${order % 6}`, style = (known.styles || [])[order] || "";
      if (known.kind === "bar") {
        const wide = (slot * 0.8) / series.length;
        values.forEach((value, index) => {
          if (value === null) return;
          const at = [y(Math.max(value, 0)), y(Math.min(value, 0))];
          inside.append(make("rect", { class: `fill ${tint}`, x: (x(index) - slot * 0.4 + order * wide).toFixed(1), y: at[0].toFixed(1), width: Math.max(wide - 1, 1).toFixed(1), height: Math.max(at[1] - at[0], 0.5).toFixed(1) }));
        });
      } else {
        const onwards = known.kind === "step" && moments ? `H${right}` : ""; // what is spent stays spent until today
        if (!few) inside.append(make("path", { class: `line ${tint} d${order % 6} ${style}`, d: path(values, there) + onwards }));
        if (few || (known.x.length <= 40 && !style && known.kind !== "step")) {
          for (const index of there) if (values[index] !== null) inside.append(make("circle", { class: `fill ${tint}`, cx: x(index).toFixed(1), cy: y(values[index]).toFixed(1), r: few ? 4.5 : 2.5 }));
        }
      }
    });
    if (known.line_at !== undefined && known.line_at !== null) inside.append(make("path", { class: "line ink d2", d: `M${left} ${y(known.line_at)}H${right}` }));
    if (known.mark) inside.append(make("circle", { class: "ring-mark", cx: across(known.mark[0]), cy: y(Math.max(known.mark[1], known.log_y ? LOWEST : -Infinity)), r: 7 }));
    const pointer = make("line", { class: "pointer", y1: top, y2: bottom });
    pointer.setAttribute("visibility", "hidden");
    svg.append(pointer);
    put(element, svg, { known, series, labels, numeric: numeric && !moments, x, left, right, pointer });
    if (!known.bare) legend(element, known, series, few);
    behind(element, known, series, labels);
  }

  // A row for each number. Sizes that differ a thousandfold have a scale each; groups of one kind share one.
  function rowsOf(element, known, series) {
    const [[, values]] = series, band = bandOf(known, 0), labels = known.x.map(String);
    const ends = values.map((value, index) => (band ? [band.low[index], band.high[index]] : [value, value]));
    const words = values.map((_, index) => told(known, series, 0, index));
    const widest = (texts) => 7 * Math.max(...texts.map((one) => one.length));
    const width = Math.max(element.clientWidth, 200), narrow = 12 + widest(labels) + 16 + widest(words) > 0.66 * width; // on a phone its words stand above each line
    const row = narrow ? 2 * ROW : ROW, height = row * values.length + 44;
    element.style.height = `${height}px`;
    const left = narrow ? 8 : Math.min(0.32 * width, 12 + widest(labels)), right = width - (narrow ? 8 : 16 + widest(words));
    const most = Math.floor((narrow ? width - widest(words) - 24 : left - 8) / 7);
    const all = [0, ...ends.flat()], common = [Math.min(...all), Math.max(...all)];
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" });
    const middle = (index) => 30 + row * (index + (narrow ? 0.75 : 0.5));
    svg.append(make("text", { class: "name", x: 2, y: 13 }, `${known.x_name || ""}`));
    svg.append(make("text", { class: "name", x: width, y: 13, "text-anchor": "end" }, known.y_name || ""));
    values.forEach((value, index) => {
      const own = known.own_scale ? [Math.min(0, ends[index][0]), Math.max(0, ends[index][1])] : common;
      const room = 0.06 * (own[1] - own[0] || 1), x = scale(own[0] - room, own[1] + room, left, right), y = middle(index);
      svg.append(make("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }), make("line", { class: "axis", x1: x(0), x2: x(0), y1: y - 11, y2: y + 11 }));
      const name = narrow ? { x: 2, y: y - ROW / 2 - 3 } : { x: left - 8, y: y + 4, "text-anchor": "end" };
      const number = narrow ? { x: width - 2, y: y - ROW / 2 - 3, "text-anchor": "end" } : { x: right + 8, y: y + 4 };
      svg.append(make("text", { class: "tick", ...name }, labels[index].length > most ? `${labels[index].slice(0, most - 1)}…` : labels[index]));
      if (band) svg.append(make("path", { class: "whisker c0", d: `M${x(ends[index][0])} ${y}H${x(ends[index][1])}m0 -5v10M${x(ends[index][0])} ${y - 5}v10` }));
      svg.append(make("circle", { class: "fill c0", cx: x(value), cy: y, r: 4.5 }), make("text", { class: "tick", ...number }, words[index]));
    });
    const pointer = make("line", { class: "pointer", visibility: "hidden" });
    svg.append(pointer);
    put(element, svg, { known, series, labels, numeric: false, x: () => left, y: middle, left, right, pointer });
    legend(element, { ...known, has_zero: true }, series, true);
    behind(element, known, series, labels);
  }

  // The numbers of a picture as a table: for screen readers, for everybody who asks, and made when somebody does.
  function behind(element, known, series, labels) {
    if (element.dataset.table === "shown") return; // it stands beside the picture already
    let fold = element.parentElement.querySelector(`:scope > details[data-of="${drawn.get(element).number}"]`);
    if (!fold) {
      fold = document.createElement("details");
      fold.className = "behind";
      fold.dataset.of = drawn.get(element).number;
      const summary = document.createElement("summary");
      summary.textContent = "The numbers of this picture";
      fold.append(summary);
      const next = element.nextElementSibling;
      (next && next.classList.contains("made-legend") ? next : element).after(fold);
      fold.addEventListener("toggle", () => { if (fold.open) fold.fill(); });
    }
    fold.fill = () => {
      const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
      for (const name of [known.x_name || "", ...series.map(([name]) => name)]) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name }));
      labels.slice(0, MOST_ROWS).forEach((label, index) => {
        const row = body.insertRow();
        row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: typeof known.x[index] === "number" ? number(known.x[index]) : label }));
        series.forEach((_, order) => { row.insertCell().textContent = told(known, series, order, index); });
      });
      const scroll = Object.assign(document.createElement("div"), { className: "numbers", tabIndex: 0 });
      scroll.append(table);
      fold.replaceChildren(fold.firstElementChild, scroll);
    };
    if (fold.open) fold.fill();
  }

  function put(element, svg, about) {
    const before = drawn.get(element);
    drawn.set(element, { ...about, number: before ? before.number : drawn.size });
    const old = element.querySelector("svg");
    if (old) old.replaceWith(svg); else element.prepend(svg);
    if (!before) listen(element);
    element.dataset.drawn = String(Number(element.dataset.drawn || 0) + 1);
  }

  // What lies under the pointer, or under the arrow keys, in words.
  function listen(element) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    element.append(tip);
    element.tabIndex = 0;
    let at = null;
    const show = (index) => {
      const { known, series, labels, numeric, x, y, pointer, left, right } = drawn.get(element);
      at = Math.max(0, Math.min(known.x.length - 1, index));
      const place = x(at);
      const ends = y ? { x1: left, x2: right, y1: y(at) + 12, y2: y(at) + 12 } : { x1: place, x2: place };
      for (const [name, value] of Object.entries({ ...ends, visibility: "visible" })) pointer.setAttribute(name, value);
      const head = document.createElement("strong");
      head.textContent = `${known.x_name ? `${known.x_name} ` : ""}${numeric ? number(known.x[at]) : labels[at]}`;
      const rows = series.map(([name], order) => {
        const row = document.createElement("span");
        const key = document.createElement("i");
        key.className = `dot c${order % 6}`;
        const words = told(known, series, order, at);
        row.append(key, `${name}: ${words}${words.includes("±") ? reach(known, order, at) : ""}`);
        return row;
      });
      tip.replaceChildren(head, ...rows);
      tip.hidden = false;
      const wide = tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(place + 12 + wide > right + 10 ? place - wide - 12 : place + 12, element.clientWidth - wide))}px`;
    };
    const hide = () => { tip.hidden = true; at = null; drawn.get(element).pointer.setAttribute("visibility", "hidden"); };
    element.addEventListener("pointermove", (event) => {
      const { known, x, y } = drawn.get(element), box = element.getBoundingClientRect();
      const at = y || x, place = y ? event.clientY - box.top : event.clientX - box.left;
      let best = 0;
      known.x.forEach((_, index) => { if (Math.abs(at(index) - place) < Math.abs(at(best) - place)) best = index; });
      show(best);
    });
    element.addEventListener("pointerleave", hide);
    element.addEventListener("blur", hide);
    element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      show(at === null ? 0 : at + step);
    });
  }

  // Each key looks like what is drawn: a dot, a whisker, a line, a block.
  function legend(element, known, series, few) {
    const next = element.nextElementSibling;
    if (next && next.classList.contains("made-legend")) next.remove();
    const rows = series.map(([name], order) => [name, known.kind === "bar" ? `block c${order % 6}` : few ? `spot c${order % 6}` : `d${order % 6} c${order % 6}`]);
    for (const band of known.bands || []) rows.push([band.name, few ? `reach c${band.of % 6}` : known.kind === "bar" ? "reach ink" : `block soft c${band.of % 6}`]);
    if (known.line_at !== undefined && known.line_at !== null) rows.push([known.line_name, "d2 ink"]);
    if (known.has_zero) rows.push(["zero", "upright"]);
    if (known.mark) rows.push([known.mark_name, "ring"]);
    if (rows.length < 2) return;
    const list = document.createElement("ul");
    list.className = "legend made-legend";
    list.append(...rows.map(([name, look]) => {
      const item = document.createElement("li"), key = document.createElement("span");
      key.className = `key ${look}`;
      item.append(key, name);
      return item;
    }));
    element.after(list);
  }

  function drawAll(root) {
    for (const element of root.querySelectorAll("[data-picture]")) {
      if (element.clientWidth) picture(element, JSON.parse(element.dataset.picture)); // what is folded is drawn when it unfolds
    }
  }

  // A curve that moves with sliders.
  function curve(element, found) {
    picture(element, {
      x: found.epsilon, series: [["X against Y", found.delta_x_y], ["Y against X", found.delta_y_x], ["Rényi bound", found.renyi]], styles: ["plain", "plain", "plain"],
      x_name: "epsilon", y_name: "delta", log_y: true, y_range: [LOWEST, 1], kind: "line", bare: true,
    });
  }

  function tradeoff(element, found) {
    picture(element, {
      x: found.type_one, series: [["X against Y", found.x_y], ["Y against X", found.y_x], ["nothing learnt", found.type_one.map((v) => 1 - v)]], styles: ["plain", "plain", "plain"],
      x_name: "false alarms", y_name: "missed detections", y_range: [0, 1], x_range: [0, 1], kind: "line", bare: true,
    });
  }

  window.studioCharts = { curve, tradeoff, drawAll, spoken };
  const again = () => { drawAll(document); document.dispatchEvent(new Event("studio:resized")); };
  let later = null;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(again, 100); });
  document.addEventListener("toggle", (event) => { if (event.target.open) drawAll(event.target); }, true);
})();
