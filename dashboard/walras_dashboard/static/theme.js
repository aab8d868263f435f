// Loaded before anything is drawn, so that a chosen theme never flashes up in the other one.
try {
  const chosen = localStorage.getItem("walras-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage, the page follows the system.
}
