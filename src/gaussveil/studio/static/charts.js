// Charts: pictures that the server describes, drawn in the page's own colours. The numbers come from the server.
(() => {
  "use strict";
  const drawn = new Map();
  const LOWEST = 1e-10;
  const BELOW = 1e-13; // zero has no place on a log axis: it rests below what is shown
  const dashes = ["solid", "dashed", "dotted", [8, 3, 2, 3], [2, 2], [12, 4]];

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const take = (name) => style.getPropertyValue(name).trim();
    return { ink: take("--ink"), faint: take("--faint"), rule: take("--rule"), series: [0, 1, 2, 3, 4, 5].map((i) => take(`--series-${i}`)) };
  }

  function power(value) {
    const exponent = Math.round(Math.log10(value));
    return exponent >= -3 && exponent <= 3 ? String(Number(value.toPrecision(6))) : `1e${exponent}`;
  }

  function axis(name, log, tint, more) {
    return {
      type: log ? "log" : "value", name, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: tint.faint },
      axisLine: { show: true, lineStyle: { color: tint.faint } }, axisTick: { show: false },
      axisLabel: { color: tint.ink, hideOverlap: true, ...(log ? { formatter: power } : {}) },
      splitLine: { lineStyle: { color: tint.rule } }, ...more,
    };
  }

  function base(tint) {
    return {
      animation: false, color: tint.series, textStyle: { color: tint.ink, fontFamily: "system-ui, sans-serif" },
      grid: { left: 64, right: 20, top: 20, bottom: 44 },
      // Rich text, not HTML: the page's policy forbids inline styles.
      tooltip: { trigger: "axis", renderMode: "richText", confine: true, valueFormatter: (v) => (v === null || v === undefined ? "-" : v === BELOW ? "below 1e-13" : Number(v).toPrecision(4)) },
    };
  }

  function put(element, option, same) {
    let chart = drawn.get(element);
    if (!chart) {
      chart = echarts.init(element, null, { renderer: "canvas" });
      drawn.set(element, chart);
    }
    chart.setOption(option, { notMerge: !same });
    chart.getZr().flush(); // paint now: what is counted as drawn can be seen
    element.dataset.drawn = String(Number(element.dataset.drawn || 0) + 1);
  }

  const paired = (xs, ys) => xs.map((x, i) => [x, ys[i]]);

  function positive(values, log) {
    return log ? values.map((v) => (v === null ? null : Math.max(v, BELOW))) : values;
  }

  // One picture as the server describes it: lines, steps or bars over numbers, times or names.
  function picture(element, known) {
    const tint = colours();
    const numeric = known.x.every((v) => typeof v === "number") && known.kind !== "bar";
    const names = Object.keys(known.series);
    const option = base(tint);
    option.grid.bottom = names.length > 1 ? 52 : 44;
    option.xAxis = numeric
      ? axis(known.x_name, known.log_x, tint, { min: "dataMin", max: "dataMax", splitLine: { show: false } })
      : axis(known.x_name, false, tint, { type: "category", data: known.x.map((v) => String(v).slice(0, 19).replace("T", " ")), splitLine: { show: false } });
    const deepest = Math.min(...Object.values(known.series).flat().filter((v) => v !== null));
    option.yAxis = axis("", known.log_y, tint, { scale: !known.log_y, ...(known.log_y && deepest < LOWEST ? { min: LOWEST, max: 1, interval: 2 } : {}) });
    option.series = names.map((name, index) => ({
      name, type: known.kind === "bar" ? "bar" : "line", step: known.kind === "step" ? "end" : false, showSymbol: known.x.length <= 40, symbolSize: 5,
      lineStyle: { width: 2, type: dashes[index % dashes.length] },
      data: numeric ? paired(known.x, positive(known.series[name], known.log_y)) : positive(known.series[name], known.log_y),
    }));
    if (known.line_at !== undefined && option.series.length) {
      option.series.push({ name: known.line_name, type: "line", showSymbol: false, lineStyle: { width: 1.5, type: "dotted", color: tint.ink }, itemStyle: { color: tint.ink }, data: numeric ? known.x.map((x) => [x, known.line_at]) : known.x.map(() => known.line_at) });
    }
    if (known.mark) {
      option.series.push({ name: known.mark_name, type: "line", symbol: "circle", symbolSize: 12, itemStyle: { color: "transparent", borderColor: tint.ink, borderWidth: 2 }, data: [[known.mark[0], Math.max(known.mark[1], LOWEST)]] });
    }
    put(element, option);
    legend(element, option.series);
  }

  function legend(element, series) {
    const next = element.nextElementSibling;
    if (next && next.classList.contains("made-legend")) next.remove();
    const list = document.createElement("ul");
    list.className = "legend made-legend";
    series.forEach((one, index) => {
      const item = document.createElement("li");
      const key = document.createElement("span");
      const type = one.lineStyle ? one.lineStyle.type : "solid";
      key.className = `key ${one.symbol ? "ring" : Array.isArray(type) ? "dashed" : type} ${one.itemStyle ? "" : `c${index % 6}`}`;
      item.append(key, one.name);
      list.append(item);
    });
    element.after(list);
  }

  function drawAll(root) {
    for (const element of root.querySelectorAll("[data-picture]")) picture(element, JSON.parse(element.dataset.picture));
  }

  // A curve that moves with sliders: three lines, redrawn in place.
  function curve(element, found, name) {
    const tint = colours();
    const option = base(tint);
    option.xAxis = axis(name || "epsilon", false, tint, { min: 0, max: found.epsilon[found.epsilon.length - 1], axisLabel: { color: tint.ink, hideOverlap: true, showMaxLabel: false, formatter: (v) => String(Number(v.toPrecision(3))) }, splitLine: { show: false } });
    option.yAxis = axis("", true, tint, { min: LOWEST, max: 1, interval: 2 });
    const line = (label, values, style) => ({ name: label, type: "line", showSymbol: false, lineStyle: { width: 2, ...style }, itemStyle: { color: style.color }, data: paired(found.epsilon, positive(values, true)) });
    option.series = [
      line("Rényi bound", found.renyi, { color: tint.faint, type: "dotted" }),
      line("X against Y", found.delta_x_y, { color: tint.series[0], type: "solid" }),
      line("Y against X", found.delta_y_x, { color: tint.series[1], type: "dashed" }),
    ];
    put(element, option, true);
  }

  function tradeoff(element, found) {
    const tint = colours();
    const option = base(tint);
    const line = (label, values, style) => ({ name: label, type: "line", showSymbol: false, lineStyle: { width: 2, ...style }, itemStyle: { color: style.color }, data: paired(found.type_one, values) });
    option.xAxis = axis("false alarms (type I error)", false, tint, { min: 0, max: 1, splitLine: { show: false } });
    option.yAxis = axis("", false, tint, { min: 0, max: 1 });
    option.series = [
      line("nothing learnt", found.type_one.map((x) => 1 - x), { color: tint.faint, type: "dotted", width: 1 }),
      line("X against Y", found.x_y, { color: tint.series[0], type: "solid" }),
      line("Y against X", found.y_x, { color: tint.series[1], type: "dashed" }),
    ];
    put(element, option, true);
  }

  window.studioCharts = { curve, tradeoff, drawAll };
  window.addEventListener("resize", () => drawn.forEach((chart) => chart.resize()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawAll(document);
    document.dispatchEvent(new Event("studio:colours"));
  });
})();
