// Keyboard shortcuts: "/" focuses the search field; "j" and "k", or the down arrow in the field, move
// through the results; Enter opens one. Users of speech input can turn off the keys that are
// characters (WCAG 2.1.4), which a cookie remembers.

const OFF = "pytools-letters=off";
const field = document.querySelector("input[type=search]");
const letters = document.querySelector("#letters");

if (letters !== null) {
  letters.checked = !document.cookie.includes(OFF);
  letters.closest(".keys").hidden = false;
  letters.addEventListener("change", () => {
    document.cookie = `${OFF}; path=/; samesite=strict; max-age=${letters.checked ? 0 : 31536000}`;
  });
}

function step(by) {
  const links = [...document.querySelectorAll("[data-step]")];
  const at = links.indexOf(document.activeElement);
  if (at + by < 0) {
    field?.focus();
    return;
  }
  const link = links[Math.min(at + by, links.length - 1)];
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const isField = event.target === field;
  if (!isField && event.target.matches("input, select, textarea")) return;
  if (isField ? event.key !== "ArrowDown" : document.cookie.includes(OFF)) return;
  if (event.key === "j" || isField) step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/" && field) field.select();
  else return;
  event.preventDefault();
});
