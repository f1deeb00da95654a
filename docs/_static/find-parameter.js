// Shows the rows of the parameter table that contain all words of the search field.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("find-parameter");
  if (!field) return;
  const rows = [...document.querySelectorAll("#parameters tbody tr")];
  const none = document.getElementById("no-parameter");
  const find = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    none.hidden = shown > 0;
  };
  field.addEventListener("input", find);
  field.value = new URLSearchParams(location.search).get("find") ?? "";
  find();
});
