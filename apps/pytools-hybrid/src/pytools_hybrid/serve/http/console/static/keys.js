// Keys for those who do not want to leave the keyboard: "/" goes to the search field, "j" and "k"
// (or the arrow keys from the field) go through the results, whose links Enter opens.

const field = document.querySelector("input[type=search]");

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
  if (isField && event.key !== "ArrowDown") return;
  if (event.key === "j" || isField) step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/" && field) field.select();
  else return;
  event.preventDefault();
});
