// Searches while one types. Everything works without it: then the form is sent with Enter.
//
// One request is in flight at a time; what was typed meanwhile is asked next. The address follows
// what is shown, without an entry in the history for each letter.

const PAUSE = 200;

const form = document.querySelector("form[data-live]");
const results = document.querySelector("#results");
const told = document.querySelector("#told");

let timer = 0;
let asking = false;
let shown = address();

function address() {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const field = form.elements[name];
    // What is as it was made need not be in a link.
    if (value.trim() && value !== field.dataset.usual) asked.append(name, value);
  }
  return asked.size ? `/?${asked}` : "/";
}

function later(pause) {
  clearTimeout(timer);
  timer = setTimeout(ask, pause);
}

function ask() {
  const wanted = address();
  if (asking || wanted === shown) return;
  asking = true;
  results.setAttribute("aria-busy", "true");
  const request = new XMLHttpRequest();
  request.open("GET", wanted);
  // Half a request is nothing to learn from: the server does not record it.
  request.setRequestHeader("Pytools-Typing", "1");
  // Parsed by the browser, without running anything of it.
  request.responseType = "document";
  request.onload = () => show(wanted, request.response);
  request.onerror = () => {
    told.textContent = "The server does not answer.";
  };
  request.onloadend = () => {
    asking = false;
    results.removeAttribute("aria-busy");
    if (request.status && address() !== wanted) later(0);
  };
  request.send();
}

function show(wanted, page) {
  const found = page?.querySelector("#results");
  if (!found) {
    // Whoever is no longer logged in is asked for the token.
    location.assign(wanted);
    return;
  }
  shown = wanted;
  results.replaceChildren(...found.childNodes);
  told.textContent = page.querySelector("#told").textContent;
  document.title = page.title;
  history.replaceState(null, "", wanted);
}

form.addEventListener("input", (event) => {
  if (!event.isComposing) later(PAUSE);
});
form.addEventListener("compositionend", () => later(PAUSE));
form.addEventListener("submit", () => clearTimeout(timer));
