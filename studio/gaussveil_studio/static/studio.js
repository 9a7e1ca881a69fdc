// What every page does: forms become JSON, requests carry the token against forgery, new pieces get their charts.
(() => {
  "use strict";
  const token = document.querySelector('meta[name="csrf-token"]').content;

  // {"order.epsilon": "1"} -> {order: {epsilon: "1"}}; empty fields are left out, so that the server's defaults hold.
  function nested(pairs, leaveOut) {
    const made = {};
    for (const [name, value] of pairs) {
      if (value === "" || value instanceof File || leaveOut.includes(name)) continue;
      const path = name.split(".");
      const last = path.pop();
      path.reduce((place, part) => (place[part] ??= {}), made)[last] = value;
    }
    for (const [name, value] of Object.entries(made)) if (typeof value === "object" && value["0"]) made[name] = Object.values(value); // rows of a form
    return made;
  }

  document.addEventListener("htmx:config:request", (event) => {
    const request = event.detail.ctx.request;
    request.headers["X-CSRF-Token"] = token;
  });

  document.addEventListener("htmx:before:request", (event) => {
    const { request, sourceElement } = event.detail.ctx;
    if (!(request.body instanceof URLSearchParams)) return;
    request.body = JSON.stringify(nested(request.body, (sourceElement.dataset.leaveOut || "").split(",")));
    request.headers["Content-Type"] = "application/json";
  });

  document.addEventListener("htmx:after:swap", () => { convention(); studioCharts.drawAll(document); });

  // Nobody answers: whoever waits is told, and a page that waits for a release asks again.
  document.addEventListener("htmx:error", (event) => {
    const ctx = event.detail.ctx, source = ctx && ctx.sourceElement;
    if (!source || ctx.response) return;
    const gone = source.querySelector(".gone");
    if (gone) {
      gone.hidden = false;
      setTimeout(() => htmx.trigger(source, "again"), 2000);
      return;
    }
    const place = document.querySelector(source.getAttribute("hx-target") || "#none");
    if (place) place.replaceChildren(Object.assign(document.createElement("p"), { className: "problem", textContent: "The studio does not answer. Nothing was changed." }));
  });

  // Numbers are written as the reader does it: with a point or a comma, on the page and in what is taken away.
  function convention() {
    const usual = (1.1).toLocaleString().includes(",") ? "comma" : "point", wanted = localStorage.getItem("decimal") || usual;
    document.documentElement.dataset.decimal = wanted;
    const choice = document.getElementById("decimal");
    if (choice) choice.value = wanted;
    for (const cell of document.querySelectorAll("[data-number]")) {
      cell.dataset.number ||= cell.textContent;
      cell.textContent = studioCharts.spoken(cell.dataset.number);
    }
    for (const link of document.querySelectorAll("a[data-reader]")) {
      const address = new URL(link.href);
      address.searchParams.set("decimal", wanted);
      link.href = wanted === "comma" ? address : address.pathname;
    }
  }
  document.addEventListener("change", (event) => {
    if (event.target.id !== "decimal") return;
    localStorage.setItem("decimal", event.target.value);
    convention();
    studioCharts.drawAll(document);
  });

  // A claim about plain Gaussian noise needs no file: change and noise make the pair.
  const claim = document.getElementById("claim-form");
  if (claim) claim.addEventListener("change", () => { for (const id of ["claim-change", "claim-noise"]) document.getElementById(id).disabled = document.getElementById("claim-file").files.length > 0; });
  if (claim) claim.addEventListener("formdata", (event) => {
    if (document.getElementById("claim-file").files.length) return;
    const [change, noise] = ["claim-change", "claim-noise"].map((id) => Number(document.getElementById(id).value));
    event.formData.set("file", new File([`variance_gap,mean_gap\n0,${change / noise}\n`], "pair.csv", { type: "text/csv" }));
  });

  // A file dropped anywhere on its field is chosen there.
  for (const place of document.querySelectorAll(".drop")) {
    const input = place.querySelector("input[type=file]");
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
    });
  }

  // Ask the API; errors come back as {error: {code, message}}.
  async function ask(path, body) {
    const form = body instanceof FormData;
    const reply = await fetch(path, { method: "POST", body: form ? body : JSON.stringify(body), headers: { "X-CSRF-Token": token, ...(form ? {} : { "Content-Type": "application/json" }) } });
    return { ok: reply.ok, found: await reply.json() };
  }

  // Coming back through the browser's memory: ask the server what became of the release.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  const begun = sessionStorage.getItem("begun"), back = document.getElementById("begun");
  if (begun && back && !location.pathname.startsWith("/release/")) { back.querySelector("a").href = begun; back.hidden = false; }
  window.studio = { ask, token };
  document.addEventListener("DOMContentLoaded", () => { convention(); studioCharts.drawAll(document); });
})();
