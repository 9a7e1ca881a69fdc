// Explore: sliders to curve. The state is in the address, so that a link shows the same.
(() => {
  "use strict";
  const take = (id) => document.getElementById(id);
  const form = take("pair");
  const state = { ratio: [], shift: [], times: 1, delta: 1e-6 };
  let latestCurve = null, latestSummary = null, running = false, again = false, later = null, linkLater = null;

  const ratioOf = (position) => Number((10 ** Number(position)).toPrecision(4));
  const positionOf = (ratio) => Math.log10(ratio);
  const timesOf = (position) => Math.round(10 ** Number(position));
  const pair = () => ({ variance_ratio: state.ratio, mean_shift: state.shift, times: state.times });
  const say = (value, digits = 5) => (value === null ? "unbounded" : value === 0 ? "0" : Math.abs(value) < 1e-3 ? Number(value).toExponential(digits - 1) : Number(value).toPrecision(digits));

  function fromLink() {
    const known = new URLSearchParams(location.search);
    const numbers = (name) => (known.get(name) || "").split(",").map(Number).filter((v) => Number.isFinite(v));
    const ratio = numbers("r"), shift = numbers("m");
    const fits = known.get("r") && ratio.length === shift.length && ratio.length <= Number(form.dataset.most) && ratio.every((v) => v > 0);
    state.ratio = fits ? ratio : Array(3).fill(ratioOf(0.08));
    state.shift = fits ? shift : Array(3).fill(0.5);
    const times = Number(known.get("k"));
    state.times = Number.isInteger(times) && times >= 1 && times <= 1e5 ? times : 1;
    const delta = known.get("d");
    if (delta && [...take("delta").options].some((one) => one.value === delta)) take("delta").value = delta;
    state.delta = Number(take("delta").value);
  }

  function toLink() {
    const known = new URLSearchParams({ r: state.ratio.join(","), m: state.shift.join(","), k: state.times, d: take("delta").value });
    history.replaceState(null, "", `${location.pathname}?${known.toString().replaceAll("%2C", ",")}`);
  }

  function showSliders() {
    take("dimension").value = Math.min(state.ratio.length, 12);
    take("dimension-shown").textContent = state.ratio.length;
    const same = (values) => values.every((v) => v === values[0]);
    take("shift-shown").textContent = same(state.shift) ? say(state.shift[0], 3) : "differs";
    take("ratio-shown").textContent = same(state.ratio) ? say(state.ratio[0], 3) : "differs";
    if (same(state.shift)) take("shift").value = state.shift[0];
    if (same(state.ratio)) take("ratio").value = positionOf(state.ratio[0]);
    take("times").value = Math.log10(state.times);
    take("times-shown").textContent = state.times === 1 ? "1 time" : `${state.times} times`;
  }

  function showRows() {
    const rows = take("rows");
    if (!take("coordinates").open) return rows.replaceChildren(); // two dozen sliders, for those who look at them
    const heading = document.createElement("div");
    heading.className = "coordinate help";
    heading.append(...["", "mean shift", "variance ratio"].map((words) => Object.assign(document.createElement("span"), { textContent: words })));
    rows.replaceChildren(heading, ...state.ratio.map((ratio, index) => {
      const row = document.createElement("div");
      row.className = "coordinate";
      const slider = (what, value, low, high, set) => {
        const input = document.createElement("input");
        Object.assign(input, { type: "range", min: low, max: high, step: 0.01, value });
        input.setAttribute("aria-label", `${what} of coordinate ${index + 1}`);
        input.addEventListener("input", () => { set(Number(input.value)); moved(); });
        return input;
      };
      row.append(
        String(index + 1),
        slider("mean shift", state.shift[index], 0, 3, (v) => { state.shift[index] = v; }),
        slider("variance ratio", positionOf(ratio), -1, 1, (v) => { state.ratio[index] = ratioOf(v); }),
      );
      return row;
    }));
  }

  async function draw() {
    if (running) { again = true; return; }
    running = true;
    do {
      again = false;
      const { ok, found } = await studio.ask("/api/curve", pair());
      if (ok) { latestCurve = found; studioCharts.curve(take("curve"), found); }
      else take("reading").textContent = found.error.message;
    } while (again);
    running = false;
  }

  async function summarise() {
    const { ok, found } = await studio.ask("/api/summary", { ...pair(), delta: state.delta });
    if (!ok) { take("reading").textContent = found.error.message; return; }
    shown(found);
  }

  function shown(found) {
    latestSummary = found;
    take("reading").textContent = `At delta ${found.delta.toExponential()}: epsilon ${say(found.epsilon)} exactly, ${say(found.renyi_epsilon)} by the Rényi bound.`;
    studioCharts.tradeoff(take("tradeoff"), found.tradeoff);
    const body = document.querySelector("#numbers tbody");
    if (!latestCurve) return;
    const steps = [...Array(9).keys()].map((i) => Math.round((i * (latestCurve.epsilon.length - 1)) / 8));
    body.replaceChildren(...steps.map((i) => {
      const row = document.createElement("tr");
      row.append(...[latestCurve.epsilon, latestCurve.delta_x_y, latestCurve.delta_y_x, latestCurve.renyi].map((values, column) => {
        const cell = document.createElement(column ? "td" : "th");
        if (!column) cell.scope = "row";
        cell.textContent = say(values[i], 4);
        return cell;
      }));
      return row;
    }));
  }

  // A pair of a file that no slider can show: what would speak of the sliders is out of reach until one is moved.
  function slidersStandForIt(does) {
    for (const part of [take("delta"), take("enclose-at"), take("enclose"), take("copy-link")]) part.disabled = !does;
  }

  // The curve follows the hand; what takes longer waits until the hand rests.
  function moved() {
    slidersStandForIt(true);
    take("pair-file").value = "";
    showSliders();
    draw();
    clearTimeout(later);
    later = setTimeout(summarise, 300);
    clearTimeout(linkLater);
    linkLater = setTimeout(toLink, 250);
    take("enclosure").replaceChildren();
  }

  async function readFile() {
    const file = take("pair-file").files[0];
    if (!file) return;
    const form = new FormData();
    form.append("file", file);
    form.append("times", state.times);
    const { ok, found } = await studio.ask("/api/curve/file", form);
    if (!ok) { take("reading").textContent = found.error.message; return; }
    if (found.pair) {
      state.ratio = found.pair.variance_ratio; state.shift = found.pair.mean_shift;
      showSliders(); showRows(); toLink();
    }
    latestCurve = found.curve;
    studioCharts.curve(take("curve"), found.curve);
    take("enclosure").replaceChildren();
    slidersStandForIt(Boolean(found.pair));
    if (found.pair) { summarise(); return; }
    shown(found.summary);
    take("reading").textContent += " The pair is too large for sliders, links and proofs here; gaussveil delta --certified proves it.";
  }

  async function enclose(event) {
    event.preventDefault();
    take("enclosure").textContent = "Proving…";
    const { ok, found } = await studio.ask("/api/enclosure", { ...pair(), epsilon: Number(take("enclose-at").value) });
    const line = document.createElement("p");
    line.className = ok ? "proof number" : "problem";
    line.textContent = ok ? `delta(${found.epsilon}) lies in [${found.lower}, ${found.upper}], proved by ball arithmetic.` : found.error.message;
    take("enclosure").replaceChildren(line);
  }

  take("dimension").addEventListener("input", (event) => {
    const count = Number(event.target.value);
    const grown = (values) => Array.from({ length: count }, (_, i) => values[Math.min(i, values.length - 1)]);
    state.ratio = grown(state.ratio); state.shift = grown(state.shift);
    showRows(); moved();
  });
  take("shift").addEventListener("input", (event) => { state.shift = state.shift.map(() => Number(event.target.value)); showRows(); moved(); });
  take("ratio").addEventListener("input", (event) => { state.ratio = state.ratio.map(() => ratioOf(event.target.value)); showRows(); moved(); });
  take("times").addEventListener("input", (event) => { state.times = timesOf(event.target.value); moved(); });
  take("delta").addEventListener("change", (event) => { state.delta = Number(event.target.value); summarise(); toLink(); });
  take("coordinates").addEventListener("toggle", showRows);
  take("pair-file").addEventListener("change", readFile);
  take("enclosure-form").addEventListener("submit", enclose);
  form.addEventListener("submit", (event) => event.preventDefault());
  take("copy-link").addEventListener("click", async () => {
    toLink();
    await navigator.clipboard.writeText(location.href).then(
      () => { take("copied").textContent = "Copied."; }, () => { take("copied").textContent = "Copy it from the address bar."; });
  });
  document.addEventListener("studio:resized", () => {
    if (latestCurve) studioCharts.curve(take("curve"), latestCurve);
    if (latestSummary) studioCharts.tradeoff(take("tradeoff"), latestSummary.tradeoff);
  });
  document.addEventListener("DOMContentLoaded", () => { fromLink(); showSliders(); showRows(); draw().then(summarise); });
})();
