// Keeps the health page up to date with events from the server.
const show = (name, value) => {
  const element = document.querySelector(`[data-live="${name}"]`);
  if (element === null) return;
  if (name === "progress") {
    element.hidden = value === null;
    if (value !== null) element.value = value;
  } else if (element.textContent !== value) {
    element.textContent = value;
  }
};

const watching = document.querySelector('[data-live="watching"]');
const events = new EventSource("/console/health/events");
events.addEventListener("state", (event) => {
  for (const [name, value] of Object.entries(JSON.parse(event.data))) show(name, value);
  watching.hidden = true;
});
events.addEventListener("error", () => {
  watching.textContent = "This page is no longer up to date: the server does not answer, or you are logged out.";
  watching.hidden = false;
});
