// Searches as you type. Without scripts, Enter sends the form.
//
// One request is in flight at a time; when it ends, the text typed meanwhile is searched for. The
// address shows the current search, but typing adds no entries to the history.

const PAUSE = 200;

const form = document.querySelector("form[data-live]");
const results = document.querySelector("#results");
const summary = document.querySelector("#status");

let timer = 0;
let isSearching = false;
// If the text was changed before this script was loaded, the page does not show its results.
let shown = form.elements.q.value === form.elements.q.defaultValue ? address() : "";

function address() {
  const parameters = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const field = form.elements[name];
    // Default values are left out of links.
    if (value.trim() && value !== field.dataset.default) parameters.append(name, value);
  }
  return parameters.size ? `/?${parameters}` : "/";
}

function schedule(pause) {
  clearTimeout(timer);
  timer = setTimeout(search, pause);
}

function search() {
  const target = address();
  if (isSearching || target === shown) return;
  isSearching = true;
  results.setAttribute("aria-busy", "true");
  const request = new XMLHttpRequest();
  request.open("GET", target);
  // The server does not record requests that are still being typed.
  request.setRequestHeader("Pytools-Typing", "1");
  // The browser parses the page without running its scripts.
  request.responseType = "document";
  request.onload = () => {
    // The user may have typed the shown query again in the meantime.
    if (address() !== shown) show(target, request.response);
  };
  request.onerror = () => {
    summary.textContent = "The server does not answer.";
  };
  request.onloadend = () => {
    isSearching = false;
    results.removeAttribute("aria-busy");
    if (request.status && address() !== target) schedule(0);
  };
  request.send();
}

function show(target, page) {
  const found = page?.querySelector("#results");
  if (!found) {
    // The user is no longer logged in: show the login page.
    location.assign(target);
    return;
  }
  shown = target;
  const links = () => [...results.querySelectorAll("[data-step]")];
  const inside = document.activeElement.closest("#results .card")?.querySelector("[data-step]");
  const at = links().indexOf(inside);
  results.replaceChildren(...found.childNodes);
  // Keep the focus at its place in the results.
  if (at >= 0) (links()[at] ?? links().at(-1) ?? form.elements.q).focus();
  summary.textContent = page.querySelector("#status").textContent;
  document.title = page.title;
  history.replaceState(null, "", target);
}

form.addEventListener("input", (event) => {
  if (!event.isComposing) schedule(PAUSE);
});
form.addEventListener("compositionend", () => schedule(PAUSE));
form.addEventListener("submit", () => clearTimeout(timer));
if (!shown) schedule(0);
