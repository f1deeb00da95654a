// Shows the rows of the parameter table that have the name in the search field; if there
// is no such name, the rows that contain all of its words.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("find-parameter");
  if (!field) return;
  const rows = [...document.querySelectorAll("#parameters tbody tr")];
  const none = document.getElementById("no-parameter");
  const named = 'td:not([data-column="default"]) code';
  const names = new Map(
    rows.map((row) => [
      row,
      new Set([...row.querySelectorAll(named)].map((code) => code.textContent)),
    ]),
  );
  const find = () => {
    const typed = field.value.trim().toLowerCase();
    const words = typed.split(/\s+/);
    const exact = rows.filter((row) => names.get(row).has(typed));
    const found = exact.length
      ? exact
      : rows.filter((row) => {
          const text = row.textContent.toLowerCase();
          return words.every((word) => text.includes(word));
        });
    for (const row of rows) row.hidden = !found.includes(row);
    none.hidden = found.length > 0;
  };
  field.addEventListener("input", find);
  field.value = new URLSearchParams(location.search).get("find") ?? "";
  find();
});
