// New release: every change asks for a new preview, and the button spends only what the last preview showed.
(() => {
  "use strict";
  const take = (id) => document.getElementById(id);
  const form = take("order"), button = take("release-button"), preview = take("preview");
  const kept = `release ${form.dataset.key}`, slider = take("slider"), epsilon = take("field-epsilon");
  const touched = new Set();
  let shown = null, columns = [], later = null, running = false, uploading = false, again = false, words = {};

  const fields = () => [...form.elements].filter((one) => one.name);

  // Empty fields that may be empty are left out; all others are sent as they are, so that nothing passes as a default.
  function asked() {
    const made = { order: { mechanism: form.dataset.mechanism } };
    for (const one of fields()) {
      const [place, name] = one.name.includes(".") ? [made.order, one.name.split(".")[1]] : [made, one.name];
      if (one.type === "checkbox") place[name] = one.checked;
      else if (one.value !== "" || one.required) place[name] = one.value;
    }
    for (const name of ["table", "account"]) if (made[name] === "") delete made[name];
    return made;
  }

  function keep() {
    const before = JSON.parse(sessionStorage.getItem(kept) || "{}");
    for (const one of fields()) before[one.name] = one.type === "checkbox" ? one.checked : one.value;
    sessionStorage.setItem(kept, JSON.stringify(before));
    sessionStorage.setItem("begun", location.pathname + location.search);
  }

  function restore() {
    const before = JSON.parse(sessionStorage.getItem(kept) || "{}");
    for (const one of fields()) {
      if (!(one.name in before)) continue;
      if (one.type === "checkbox") one.checked = before[one.name];
      else if (one.tagName !== "SELECT" || [...one.options].some((option) => option.value === before[one.name])) one.value = before[one.name];
    }
  }

  // Until the new preview is there nothing can be spent.
  function lock(text, receipt) {
    shown = null;
    button.disabled = true;
    button.textContent = text;
    take("receipt").textContent = receipt;
  }

  function complaint(text) {
    const box = document.createElement("div"), line = document.createElement("p");
    box.className = "problem";
    line.textContent = text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
    box.append(line);
    return box;
  }

  // A refusal stands at the field that it speaks of, and the field says so to everybody.
  function pointAt(name, text) {
    for (const old of form.querySelectorAll(".wrong")) old.remove();
    for (const one of form.querySelectorAll("[aria-invalid]")) {
      one.removeAttribute("aria-invalid");
      one.setAttribute("aria-describedby", (one.getAttribute("aria-describedby") || "").replace(/ ?wrong-here/, ""));
    }
    const one = name ? form.elements[name] : null;
    if (!one || !text) return;
    const line = Object.assign(document.createElement("p"), { className: "wrong", id: "wrong-here", textContent: text });
    one.setAttribute("aria-invalid", "true");
    one.setAttribute("aria-describedby", `${one.getAttribute("aria-describedby") || ""} wrong-here`.trim());
    (one.closest(".field") || one.parentElement).append(line);
    const folded = one.closest("details");
    if (folded) folded.open = true;
  }

  // Some fields are questions: what is said of them begins anew.
  const about = (label, words) => (label.endsWith("?") ? `${label} ${words.charAt(0).toUpperCase()}${words.slice(1)}.` : `${label}: ${words}.`);

  // What is missing or wrong, in words, before the server is asked; of one step, or of all.
  function missing(step = form) {
    if (take("table") && !take("table").value) return ["table", "Choose a table, or upload one."];
    const names = columns.map((one) => one.name);
    for (const one of fields().filter((field) => step.contains(field))) {
      const label = one.labels && one.labels[0] ? one.labels[0].textContent.trim() : one.name;
      if (one.validity && one.validity.badInput) return [one.name, about(label, "this is not a number, which is written 0.5")];
      const asked = one.required || (form.dataset.mechanism === "table" && /column|low|high|values/.test(one.name) && !one.closest("[data-field][hidden]"));
      if (asked && one.value === "" && one.id !== "account" && one.id !== "table") return [one.name, about(label, "this is still empty")];
      if (!names.length || one.value === "") continue;
      const given = one.dataset.pick ? [one.value] : one.dataset.many !== undefined ? one.value.split(",").map((v) => v.trim()).filter(Boolean) : [];
      const unknown = given.find((name) => !names.includes(name));
      if (unknown !== undefined) return [one.name, about(label, `the table has no column “${unknown}”`)];
    }
    return ["", ""];
  }

  // One step at a time: the next one shows when this one is answered, and stays.
  function reveal() {
    const steps = [...form.querySelectorAll("fieldset[data-step]")];
    let open = true;
    for (const [place, step] of steps.entries()) {
      open &&= place === 0 || !missing(steps[place - 1])[1];
      if (open) step.hidden = false;
    }
    document.querySelector(".spend").hidden = steps.at(-1).hidden;
  }

  async function look() {
    reveal();
    if (running) { again = true; return; }
    running = true;
    do {
      again = false;
      const [at, wrong] = missing();
      pointAt(touched.has(at) ? at : "", wrong); // what nobody has come to yet is not wrong, only missing
      if (wrong) {
        const hint = Object.assign(document.createElement("p"), { className: "hint", textContent: wrong });
        preview.replaceChildren(hint);
        lock("Release", "Nothing to debit yet: answer the questions first.");
        mark("");
        continue;
      }
      const question = asked(), text = JSON.stringify(question);
      let reply, body;
      try {
        reply = await fetch("/api/preview", { method: "POST", body: text, headers: { "X-CSRF-Token": studio.token, "Content-Type": "application/json", "HX-Request": "true", Accept: "text/html" } });
        body = await reply.text();
      } catch {
        preview.replaceChildren(complaint("The studio does not answer. Nothing was spent; what you typed is kept."));
        continue;
      }
      if (again || JSON.stringify(asked()) !== text) { again = true; continue; } // somebody went on typing
      const open = [...preview.querySelectorAll("details")].map((one) => one.open);
      preview.innerHTML = body;
      [...preview.querySelectorAll("details")].forEach((one, place) => { if (place in open) one.open = open[place]; });
      studioCharts.drawAll(preview);
      const found = take("shown");
      if (!reply.ok || !found) {
        const told = preview.querySelector(".problem");
        if (told) pointAt(told.dataset.field, told.textContent.trim());
        lock("Release", "Nothing to debit: this cannot be released as it stands.");
        mark("");
        continue;
      }
      pointAt(found.dataset.field, found.dataset.receipt);
      take("receipt").textContent = found.dataset.receipt;
      button.textContent = found.dataset.button;
      button.disabled = !found.dataset.digest;
      shown = found.dataset.digest ? { ...question, shown: found.dataset.digest } : null;
      mark(found.dataset.largest);
    } while (again);
    running = false;
    preview.removeAttribute("aria-busy");
  }

  // The part of the slider that the account cannot pay for.
  function mark(largest) {
    const shade = take("unaffordable");
    const part = largest ? (Math.log10(Number(largest)) - Number(slider.min)) / (Number(slider.max) - Number(slider.min)) : 1;
    shade.hidden = part >= 1;
    shade.style.left = `${100 * Math.max(part, 0)}%`;
    take("affordable").textContent = largest && part < 1 ? `The account can pay for at most about ${Number(Number(largest).toPrecision(2))} here.` : "";
  }

  function changed() {
    keep();
    lock("Looking…", "Something changed: the new preview comes first.");
    preview.setAttribute("aria-busy", "true");
    speak();
    clearTimeout(later);
    later = setTimeout(look, 150);
  }

  // Bounds are asked for in the words of the table at hand.
  function speak() {
    const value = (name) => { const one = form.elements[`order.${name}`]; return one ? one.value : ""; };
    if (form.dataset.mechanism !== "table") return;
    const answer = value("answer"), what = value("column") || "value", who = value("unit") || "person", when = { hour: " in an hour", weekday: " on a day", month: " in a month" }[value("by")] || "";
    const unit = value("measured_in") ? `, in ${value("measured_in")}` : "";
    const listed = ["values", "values and others"];
    const put = (name, label, help) => {
      const box = form.querySelector(`[data-field="${name}"]`);
      if (!box) return;
      words[name] ??= [box.querySelector("label").textContent, box.querySelector(".help").textContent];
      box.querySelector("label").textContent = label || words[name][0];
      box.querySelector(".help").textContent = help || words[name][1];
    };
    const share = answer === "share", reach = { mean: "The wider the two, the more noise; with hundreds of them learnt bounds (More settings) take much of it away.", sum: "The noise grows with this number.", variance: "The noise grows with its square." }[answer] || "";
    put("low", share ? `Count values of ${what} from` : `How small can ${what} of one ${who} be${when}${unit}?`, share ? "Where the range begins." : "Smaller values count as this. This must not come from the data.");
    put("high", share ? "to" : `How large can ${what} of one ${who} be${when} at most${unit}?`, share ? "Where it ends." : `Larger values count as this. This must not come from the data: take what is possible, from a standard, a contract, or another year. ${reach}`.trim());
    const show = (name, visible) => { const box = form.querySelector(`[data-field="${name}"]`); if (box) box.hidden = !visible; };
    for (const name of ["column", "low", "high", "measured_in"]) show(name, answer !== "count");
    show("by_column", value("by") !== "nothing");
    show("by_values", listed.includes(value("by")));
    show("time_zone", Boolean(when));
    show("bounds", answer === "mean" || answer === "sum");
  }

  // The form of the table, read and found right by its owner.
  async function keepForm() {
    const place = take("columns"), reply = await fetch(`/api/columns?table=${encodeURIComponent(take("table").value)}`, { method: "POST", headers: { "X-CSRF-Token": studio.token, "HX-Request": "true", Accept: "text/html" } });
    if (!reply.ok) { place.innerHTML = await reply.text(); return; }
    await describe();
    changed();
  }

  async function describe() {
    const place = take("columns"), table = take("table");
    columns = [];
    if (!place) return;
    if (!table.value) { place.replaceChildren(); return; }
    place.textContent = "Reading the columns…";
    const wanted = table.value;
    const reply = await fetch(`/api/columns?table=${encodeURIComponent(wanted)}`, { headers: { "HX-Request": "true", Accept: "text/html" } });
    const told = await reply.text();
    if (table.value !== wanted) return; // another table was chosen meanwhile
    place.innerHTML = told;
    const known = place.querySelector("[data-columns]"), keeper = take("keep-form");
    if (keeper) keeper.addEventListener("click", keepForm);
    columns = known ? JSON.parse(known.dataset.columns) : [];
    const rows = known && form.dataset.mechanism === "table" ? JSON.parse(known.dataset.rows) : [], homes = columns.length - 1;
    if (rows.length) columns = rows; // a column for each home reads like a row for each reading
    const isNumber = (one) => /int|float|double|decimal|bool/.test(one.type);
    const fill = (id, listed) => take(id).replaceChildren(...listed.map((one) => Object.assign(document.createElement("option"), { value: one.name, label: `${one.name}: ${one.type}` })));
    fill("columns-any", columns);
    fill("columns-number", columns.filter(isNumber));
    for (const picker of form.querySelectorAll(".picker")) choose(picker, columns.filter(isNumber));
    fits(columns);
    const proposed = known ? JSON.parse(known.dataset.proposed) : {};
    guess(rows.length ? { ...proposed, unit: rows[0].name, reading: rows[2].name } : proposed);
    const said = { ...(known ? JSON.parse(known.dataset.said) : {}), ...(rows.length ? { units: homes } : {}) };
    for (const [name, count] of Object.entries(said)) { // how many there are is never looked up: names of columns say it, or somebody said it before
      const one = form.elements[`order.${name}`];
      if (one && one.value === one.defaultValue) one.value = count;
    }
  }

  // An account that is kept for people says whose rows these are, until somebody says otherwise.
  let kept_for = "";
  function whose() {
    const people = form.elements["order.people"], account = take("account");
    const now = account.selectedOptions.length ? account.selectedOptions[0].dataset.people || "" : "";
    if (people && (people.value === "" || people.value === kept_for)) people.value = now;
    kept_for = now;
  }

  // What names and types of columns propose; no column that somebody has chosen is touched, if the table has it.
  function guess(proposed) {
    const put = (name, value) => { const one = form.elements[`order.${name}`]; if (one && one.value === "" && value) one.value = value; };
    const kind = form.dataset.mechanism, wide = kind === "forecast" && columns.length > 2 && !proposed.unit;
    for (const one of form.querySelectorAll("[data-pick]")) { // of another table, or of the rows that this one was read as
      if (columns.length && !columns.some((column) => column.name === one.value)) one.value = "";
    }
    const by = form.elements["order.by"], each = form.elements["order.rows_per_unit"];
    const days = columns.some((one) => one.name === proposed.time && /^date/.test(one.type));
    if (by && days && by.value === "hour") by.value = "month"; // a day has no hours
    if (!by || /hour|weekday|month/.test(by.value)) put("by_column", proposed.time);
    put("order", proposed.time);
    put("time", proposed.time);
    const unit = form.elements["order.unit"];
    if (unit && !wide) put("unit", proposed.unit);
    if (unit && each && unit.value) put("rows_per_unit", "1");
    if (kind === "table" || kind === "spectrum") put("column", proposed.reading);
    if (kind === "forecast" && !wide) put("reading", proposed.reading);
    const homes = take("homes");
    if (homes) homes.replaceChildren(...(wide ? columns.filter((one) => one.name !== proposed.time) : []).map((one) => Object.assign(document.createElement("option"), { value: one.name })));
  }

  // What cannot be asked of such columns says why; it can be looked at all the same.
  function fits(listed) {
    const numbers = listed.filter((one) => /int|float|double|decimal/.test(one.type)).length, texts = listed.filter((one) => /string/.test(one.type)).length;
    const times = listed.filter((one) => /timestamp|date/.test(one.type)).length, lacks = { number: numbers < 1, numbers: numbers < 2, time: times < 1, text: texts < 1 };
    const words = { number: "a column of numbers", numbers: "two columns of numbers", time: "a column of times", text: "a column of text" };
    for (const link of form.querySelectorAll(".jobs a")) {
      for (const old of link.querySelectorAll(".unfit")) old.remove();
      const lacking = listed.length ? link.dataset.needs.split(" ").find((need) => lacks[need]) : undefined;
      if (lacking) link.append(Object.assign(document.createElement("span"), { className: "unfit", textContent: `Needs ${words[lacking]}.` }));
    }
  }

  // Another job: what it chooses is chosen, everything else stays as it was typed.
  for (const link of form.querySelectorAll(".jobs a")) {
    link.addEventListener("click", () => {
      keep();
      const before = JSON.parse(sessionStorage.getItem(kept) || "{}");
      for (const [name, value] of Object.entries(JSON.parse(link.dataset.order))) before[`order.${name}`] = value;
      sessionStorage.setItem(kept, JSON.stringify(before));
    });
  }

  // Many columns: a list to search and tick, which writes into the field above it.
  function choose(picker, listed) {
    const input = picker.parentElement.querySelector("[data-many]"), list = picker.querySelector("ul"), search = picker.querySelector("input");
    const show = () => {
      const chosen = input.value.split(",").map((v) => v.trim());
      const found = listed.filter((one) => one.name.toLowerCase().includes(search.value.toLowerCase()));
      list.replaceChildren(...found.slice(0, 200).map((one) => {
        const item = document.createElement("li"), label = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox", checked: chosen.includes(one.name) });
        box.addEventListener("change", () => {
          const now = input.value.split(",").map((v) => v.trim()).filter((name) => name && name !== one.name);
          input.value = [...now, ...(box.checked ? [one.name] : [])].join(",");
          changed();
        });
        const type = document.createElement("small");
        type.textContent = one.type;
        label.append(box, ` ${one.name} `, type);
        item.append(label);
        return item;
      }));
      if (found.length > 200) list.append(Object.assign(document.createElement("li"), { textContent: `and ${found.length - 200} more: search for them` }));
    };
    search.oninput = (event) => { event.stopPropagation(); show(); };
    show();
  }

  async function upload() {
    const file = take("file").files[0], place = take("upload-problem"), most = Number(form.dataset.most);
    if (!file || uploading) return;
    if (file.size > most * 2 ** 20) {
      place.replaceChildren(complaint(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MiB, and at most ${most} can be uploaded: keep the columns that the release needs, or save it as Parquet`));
      take("file").value = "";
      return;
    }
    uploading = true;
    place.textContent = `Reading ${file.name}…`;
    const body = new FormData();
    body.append("file", file);
    const { ok, found } = await studio.ask("/api/tables", body).catch(() => ({ ok: false, found: { error: { message: "the studio does not answer" } } }));
    take("file").value = "";
    uploading = false;
    if (!ok) { place.replaceChildren(complaint(found.error.message)); return; }
    place.replaceChildren();
    await chosen(found, `${found.name} (uploaded)`);
  }

  async function chosen(found, words) {
    if (![...take("table").options].some((one) => one.value === found.id)) take("table").append(Object.assign(document.createElement("option"), { value: found.id, textContent: words }));
    take("table").value = found.id;
    await describe();
    changed();
  }

  async function sample() {
    const { ok, found } = await studio.ask("/api/tables/sample", {}).catch(() => ({ ok: false, found: { error: { message: "the studio does not answer" } } }));
    if (ok) await chosen(found, found.name);
    else take("upload-problem").replaceChildren(complaint(found.error.message));
  }

  // An account in the same step: its name, its people, its budget.
  async function openAccount() {
    const given = { name: take("open-name").value.trim(), people: take("open-people").value.trim(), epsilon: take("open-epsilon").value, delta: 1e-5 };
    const place = take("open-problem");
    if (!given.name || !given.epsilon) { place.replaceChildren(complaint("An account needs a name and a budget")); return; }
    const { ok, found } = await studio.ask("/api/accounts", given).catch(() => ({ ok: false, found: { error: { message: "the studio does not answer" } } }));
    if (!ok) { place.replaceChildren(complaint(found.error.message)); return; }
    place.replaceChildren();
    const option = Object.assign(document.createElement("option"), { value: found.account, textContent: given.people ? `${found.account}, kept for ${given.people}` : found.account });
    option.dataset.people = given.people;
    take("account").append(option);
    take("account").value = found.account;
    take("open-here").open = false;
    take("account-words").textContent = "Its budget is debited before anything is drawn.";
    whose();
    changed();
  }

  async function spend() {
    if (!shown || button.disabled || JSON.stringify(asked()) !== JSON.stringify({ ...shown, shown: undefined })) { changed(); return; }
    button.disabled = true;
    const { ok, found } = await studio.ask("/api/releases", { ...shown, key: form.dataset.key }).catch(() => ({ ok: false, found: null }));
    if (ok) sessionStorage.removeItem("begun");
    if (ok) { location.replace(`/release/${form.dataset.key}`); return; }
    if (!found) { take("outcome").replaceChildren(complaint("The studio does not answer. Press again when it does: the account is debited once at most.")); button.disabled = false; return; }
    take("outcome").replaceChildren(complaint(found.error.message));
    lock("Looking…", "Nothing was debited.");
    look();
  }

  const toSlider = () => { const value = Number(epsilon.value); if (value > 0) slider.value = Math.log10(value); };
  slider.addEventListener("input", () => { epsilon.value = Number((10 ** Number(slider.value)).toPrecision(2)); changed(); });
  form.addEventListener("input", (event) => {
    if (!event.target.name) return;
    touched.add(event.target.name);
    take("outcome").replaceChildren();
    if (event.target === epsilon) toSlider();
    if (event.target.id === "account") whose();
    if (event.target.id === "table") describe().then(changed); else changed();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  if (take("file")) {
    take("file").addEventListener("change", upload);
    if (take("file").files.length) upload(); // chosen before this page could listen
  }
  if (take("sample")) take("sample").addEventListener("click", sample);
  take("open-button").addEventListener("click", openAccount);
  button.addEventListener("click", spend);
  document.addEventListener("DOMContentLoaded", async () => {
    restore(); toSlider(); speak(); whose();
    await describe();
    speak();
    look();
  });
})();
